import { expect, test } from "vitest";
import { columnPositions, predictedAfter, rowPositions, sees } from "../src/positions";
import type { Read, SiteInfo } from "../src/protocol";

const site = { row_side: "read", column_side: "read", causal: true, ahead: 0, extra: false, first_column: 0 } as SiteInfo;
const cross = { ...site, column_side: "given", causal: false, ahead: 1 } as SiteInfo;
const tokens = { spans: null, given_spans: null } as unknown as Read;
// <s> | t·all | cat | </s>, over a source of two words of two tokens each
const joined = { spans: [[0, 1], [1, 3], [3, 4], [4, 5]], given_spans: [[0, 2], [2, 4]] } as unknown as Read;

test("tokens are positions", () => {
  expect(rowPositions(tokens, site, 4)).toEqual([4]);
  expect(rowPositions(tokens, cross, 4)).toEqual([4]);
  expect(predictedAfter(tokens, 4)).toBe(3);
});

test("words are the positions of their tokens", () => {
  expect(rowPositions(joined, site, 1)).toEqual([1, 2]);
  expect(rowPositions(joined, cross, 0)).toEqual([0, 1]); // the row of the first word is named by tokens 1 and 2
  expect(columnPositions(joined, cross, 1)).toEqual([2, 3]);
  expect(predictedAfter(joined, 2)).toBe(2);
});

test("the future is hidden in one text, and nothing of a source", () => {
  expect([sees(site, 3, 3, 9), sees(site, 3, 4, 9), sees(cross, 3, 4, 9)]).toEqual([true, false, true]);
  expect(sees({ ...site, extra: true }, 3, 8, 9)).toBe(true);
});
