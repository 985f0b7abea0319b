// The words of a text with every model's surprisal. Models may read different tokens; words are the same.

import type { Read } from "./protocol";

export interface LadderRow {
  place: number;
  word: string;
  nats: (number | null)[]; // of each model: the sum over the tokens of the word (chain rule)
  spread: number;
  best: number; // the model with the least surprisal
}

type Words = { word: string; nats: number | null }[];

/** The words of one reading, without the start mark and the end. */
export function wordsOf(read: Pick<Read, "tokens" | "word" | "surprisal">): Words {
  const words: Words = [];
  let last = -1;
  read.tokens.forEach((token, place) => {
    if (token === "<s>" || (token === "</s>" && place === read.tokens.length - 1)) return;
    const nats = read.surprisal[place] ?? null;
    const number = read.word[place]!;
    const word = words[words.length - 1];
    if (number === last && word) {
      word.word += token;
      word.nats = word.nats === null || nats === null ? null : word.nats + nats;
    } else words.push({ word: token, nats });
    last = number;
  });
  return words;
}

/** The ladder of several readings, or null if they do not have the same words. */
export function ladder(reads: readonly Pick<Read, "tokens" | "word" | "surprisal">[]): LadderRow[] | null {
  const all = reads.map(wordsOf);
  const size = all[0]?.length ?? 0;
  if (all.some((words) => words.length !== size)) return null;
  return Array.from({ length: size }, (_, place) => {
    const nats = all.map((words) => words[place]!.nats);
    const known = nats.filter((one): one is number => one !== null);
    const least = Math.min(...known);
    const names = all.map((words) => words[place]!.word.trim() || words[place]!.word);
    return {
      place,
      word: names.find((name) => name !== "<unk>") ?? names[0]!,
      nats,
      spread: known.length ? Math.max(...known) - least : 0,
      best: nats.indexOf(least),
    };
  });
}
