import { blankAndWord } from "./format";

/** A token, with the blank before it in a soft colour. */
export function Word({ token }: { token: string }) {
  const [blanks, word] = blankAndWord(token);
  return (
    <>
      {blanks && <span class="blank">{blanks}</span>}
      {word}
    </>
  );
}
