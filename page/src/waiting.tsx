import { useStore } from "./context";

/** The place of the first answer about a text: an empty shape, or why there is no answer. `empty`: what to do without a text. */
export function Waiting({ empty }: { empty: string }) {
  const { reading, text, info, active, retry } = useStore();
  if (!text.value.trim() && info.value?.reads !== "captions") return <p class="empty">{empty}</p>;
  const error = reading.value?.error;
  if (!error) return <div class="skeleton tall" aria-label="The model is being opened" />;
  return (
    <p class="error" role="alert">
      {error}{" "}
      <button class="link" onClick={() => active.value && retry(active.value)}>
        Try again
      </button>
    </p>
  );
}
