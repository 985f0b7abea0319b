// How tokens and numbers are written for people.

const CONTROL: Record<string, string> = { "\n": "⏎", "\t": "⇥", "\r": "␍" };
// Marks that turn the direction of the text, and that end a line or a paragraph: a browser obeys them, and draws nothing.
const UNSEEN = /[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** A token with its spaces and control characters made visible. */
export function visible(token: string): string {
  if (token === "") return "∅";
  let out = "";
  for (const letter of token) {
    const code = letter.codePointAt(0)!;
    if (letter in CONTROL) out += CONTROL[letter];
    else if (code < 32 || code === 127 || (code >= 0x80 && code < 0xa0)) out += `\\x${code.toString(16).padStart(2, "0")}`;
    else if (UNSEEN.test(letter)) out += `\\u${code.toString(16).padStart(4, "0")}`;
    else out += letter;
  }
  return out.replace(/^ +| +$/g, (blanks) => "␣".repeat(blanks.length));
}

/** The blanks before a token, and the rest. */
export function blankAndWord(token: string): [string, string] {
  const word = visible(token);
  const blanks = /^␣*/.exec(word)![0].length;
  return blanks < word.length ? [word.slice(0, blanks), word.slice(blanks)] : ["", word];
}

/** A token as a word: without the blank before it. */
export function bare(token: string): string {
  const word = visible(token);
  return word.length > 1 && word.startsWith("␣") ? word.slice(1) : word;
}

export function percent(p: number): string {
  if (p >= 0.9995) return "100%";
  if (p >= 0.1) return `${(p * 100).toFixed(0)}%`;
  if (p >= 0.01) return `${(p * 100).toFixed(1)}%`;
  if (p >= 0.0001) return `${(p * 100).toFixed(2)}%`;
  return p === 0 ? "0%" : p.toExponential(0);
}

export function bits(nats: number | null): string {
  return nats === null ? "–" : (nats / Math.LN2).toFixed(1);
}

export function signedPercent(p: number): string {
  if (Math.abs(p) < 0.00005) return "±0";
  return `${p > 0 ? "+" : "−"}${percent(Math.abs(p))}`;
}

export function weight(number: number): string {
  return number.toFixed(Math.abs(number) < 0.095 ? 3 : 2);
}

export function count(number: number): string {
  return number.toLocaleString("en");
}

/** A word in single quotes for a shell. */
export function shell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Two digits, and no sign before a zero. */
export function short(value: number): string {
  return value.toFixed(2).replace(/^-(0\.0*)$/, "$1").replace("-", "−");
}
