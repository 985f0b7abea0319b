import { useRef } from "preact/hooks";
import { surprisalLevel } from "./colour";
import { bare, visible } from "./format";

export interface TokenLook {
  text: string;
  nats: number | null;
  empty?: boolean; // a blank to fill in
}

interface Props {
  label: string;
  tokens: readonly TokenLook[];
  joined?: boolean; // tokens carry their own blanks; one without a blank continues the word before it
  first?: number; // the number of the first token
  selected: number | null;
  pick: (place: number | null) => void;
  hover?: (place: number | null) => void;
  after?: string; // the name of a place after the last token
}

/** A text whose tokens are coloured by surprisal: one choice among all tokens, for mouse and keyboard. */
export function Tokens({ label, tokens, joined = false, first = 0, selected, pick, hover, after }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const end = tokens.length + (after === undefined ? 0 : 1);
  const placeOf = (event: Event) => {
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-place]");
    return found === null ? null : Number(found.dataset.place);
  };
  const go = (place: number) => {
    const there = Math.min(first + end - 1, Math.max(first, place));
    pick(there);
    box.current?.querySelector<HTMLElement>(`[data-place="${there}"]`)?.focus();
  };
  const keys = (event: KeyboardEvent) => {
    const here = placeOf(event) ?? selected ?? first;
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 };
    if (event.key in steps) go(here + steps[event.key]!);
    else if (event.key === "Home") go(first);
    else if (event.key === "End") go(first + end - 1);
    else if (event.key === "Enter" || event.key === " ") pick(here);
    else if (event.key === "Escape") pick(null);
    else return;
    event.preventDefault();
  };
  const current = selected !== null && selected >= first && selected < first + end ? selected : first;
  const option = (place: number, text: string, level: number, label: string, more = "") => (
    <span
      key={place}
      role="option"
      data-place={place}
      aria-selected={selected === place}
      aria-label={label}
      tabIndex={place === current ? 0 : -1}
      class={`token s${level}${more}`}
    >
      {text}
    </span>
  );
  return (
    <div
      ref={box}
      class="tokens"
      role="listbox"
      aria-label={label}
      onClick={(event) => {
        const place = placeOf(event);
        if (place !== null) pick(place === selected ? null : place);
      }}
      onKeyDown={keys}
      onMouseOver={(event) => hover?.(placeOf(event))}
      onMouseLeave={() => hover?.(null)}
      onFocusIn={(event) => hover?.(placeOf(event))}
      onFocusOut={() => hover?.(null)}
    >
      {tokens.map((token, at) => {
        const breaks = token.text.includes("\n");
        const continues = joined && at > 0 && !/^\s/.test(token.text) && !/\n$/.test(tokens[at - 1]!.text);
        const look = option(
          first + at,
          joined ? bare(token.text) : visible(token.text),
          surprisalLevel(token.nats),
          `${visible(token.text)}${token.nats === null ? "" : `, ${(token.nats / Math.LN2).toFixed(1)} bits`}`,
          `${continues ? " continues" : ""}${token.empty ? " after" : ""}`,
        );
        return breaks ? [look, <br key={`b${at}`} />] : look;
      })}
      {after !== undefined && option(first + tokens.length, after, 0, "the next word", " after")}
    </div>
  );
}

/** The scale of the colours. */
export function Scale() {
  return (
    <p class="scale">
      <span>surprisal: none</span>
      {[0, 1, 2, 3, 4, 5, 6, 7, 8].map((level) => (
        <span key={level} class={`swatch s${level}`} title={`${level * 2} bits`} />
      ))}
      <span>16 bits</span>
    </p>
  );
}
