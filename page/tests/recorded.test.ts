import { expect, test } from "vitest";
import { numberAt, small, tile } from "../src/recorded";
import type { SiteInfo } from "../src/protocol";

const site = { holds: "weights", first: 2, first_column: 2, block: 1, most: 1 } as SiteInfo;
const plane = { rows: 3, columns: 3, data: Float32Array.of(1, 0, 0, 0.25, 0.75, 0, 0.16, 0.36, 0.48) };

test("weights are square roots of levels, values are shares of the largest around the middle", () => {
  expect(numberAt(255, 255, 1, true)).toBe(1);
  expect(numberAt(51, 255, 1, true)).toBeCloseTo(0.04);
  expect(numberAt(128, 255, 3, false)).toBe(0);
  expect(numberAt(1, 255, 3, false)).toBe(-3);
  expect(numberAt(65535, 65535, 3, false)).toBe(3);
});

test("a tile has a byte for each cell: the square root of the weight", () => {
  const bytes = tile(site, plane, [2, 3, 4], { of: { run: "a", text: "" }, site: "a", head: 0, row: 3, column: 2, rows: 2, columns: 3 });
  expect([...bytes]).toEqual([0.5, Math.sqrt(0.75), 0, 0.4, 0.6, Math.sqrt(0.48)].map((root) => Math.round(root * 255)));
});

test("a block of cells is the largest of them, and a gain makes small weights larger", () => {
  const of = { of: { run: "a", text: "" }, site: "a", head: 0, row: 2, column: 2, rows: 4, columns: 4, block: 2, gain: 4 };
  expect([...tile(site, plane, [2, 3, 4], of)]).toEqual([255, 0, 255, 255]); // 0.36 and 0.48 times 4 are above 1
  expect([...tile(site, plane, [2, 3, 4], { ...of, gain: 1 })]).toEqual([255, 0, 153, Math.round(Math.sqrt(0.48) * 255)]);
});

test("a coarse map answers with its own blocks", () => {
  const coarse = { rows: 2, columns: 2, data: Float32Array.of(1, 0, 0.25, 0.04) };
  const of = { of: { run: "a", text: "" }, site: "a", head: 0, row: 2, column: 2, rows: 16, columns: 16, block: 8 };
  expect([...tile({ ...site, block: 8 }, coarse, null, of)]).toEqual([255, 0, 128, 51]);
});

test("a small map keeps the largest number of each block, with its sign", () => {
  const values = { ...site, holds: "values", most: 2 } as SiteInfo;
  const line = { rows: 1, columns: 4, data: Float32Array.of(1, -2, 0.5, 0) };
  expect([...small(values, line, 2, 1)].slice(0, 2)).toEqual([1, Math.round(0.25 * 127 + 128)]);
});
