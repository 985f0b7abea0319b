import { expect, test } from "vitest";
import { bare, bits, blankAndWord, percent, shell, signedPercent, visible } from "../src/format";
import { ladder, wordsOf } from "../src/ladder";

test("blanks and control characters of tokens are visible", () => {
  expect([" a", "\n", "\t\u0007", "", "a b"].map(visible)).toEqual(["␣a", "⏎", "⇥\\x07", "∅", "a b"]);
  expect(visible("\u202eabc")).toBe("\\u202eabc");
  expect(visible("\u061ca\u2028b\u2029c\u200f")).toBe("\\u061ca\\u2028b\\u2029c\\u200f");
  expect([" a", " "].map(bare)).toEqual(["a", "␣"]);
  expect([" a", " ", "a"].map(blankAndWord)).toEqual([["␣", "a"], ["", "␣"], ["", "a"]]);
});

test("numbers are short", () => {
  expect([1, 0.25, 0.05, 0.001, 0.00001, 0].map(percent)).toEqual(["100%", "25%", "5.0%", "0.10%", "1e-5", "0%"]);
  expect([0.1, -0.1, 0].map(signedPercent)).toEqual(["+10%", "−10%", "±0"]);
  expect([Math.LN2, null].map(bits)).toEqual(["1.0", "–"]);
  expect(shell("a'b")).toBe(`'a'\\''b'`);
});

const words = { tokens: ["<s>", "my", "cat"], word: [0, 1, 2], surprisal: [null, 1, 4] };
const pieces = { tokens: ["<s>", "my", " c", "at"], word: [0, 1, 2, 2], surprisal: [null, 2, 1, 1.5] };

test("the surprisal of a word is the sum over its tokens", () => {
  expect(wordsOf(pieces)).toEqual([
    { word: "my", nats: 2 },
    { word: " cat", nats: 2.5 },
  ]);
});

test("the ladder compares models with different tokens word by word", () => {
  const table = ladder([words, pieces])!;
  expect(table.map((row) => [row.word, row.best, row.spread])).toEqual([["my", 0, 1], ["cat", 1, 1.5]]);
  expect(ladder([words, { tokens: ["<s>", "x"], word: [0, 1], surprisal: [null, 1] }])).toBeNull();
});
