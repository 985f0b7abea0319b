import { expect, test } from "vitest";
import { contrast, INK, inkOn, LEVELS, palette, sequential, signed, stop, surprisalLevel, type Theme } from "../src/colour";

const themes: Theme[] = ["light", "dark"];

test("text on every level of the scale has the contrast of WCAG AA", () => {
  for (const theme of themes)
    for (let level = 1; level < LEVELS; level++)
      expect(contrast(stop(level, theme), inkOn(level, theme)), `${theme} ${level}`).toBeGreaterThanOrEqual(4.5);
});

test("black and white have the largest contrast", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
  expect(contrast("#777777", "#777777")).toBe(1);
});

test("the scale is monotonic in lightness, so that it is safe without colours", () => {
  for (const theme of themes) {
    const light = Array.from({ length: 101 }, (_, at) => contrast("#000000", hex(sequential(at / 100, theme))));
    const sorted = [...light].sort((a, b) => (theme === "light" ? b - a : a - b));
    expect(light).toEqual(sorted);
  }
});

test("signed colours meet in the middle", () => {
  for (const theme of themes) {
    expect(signed(0, theme)).toEqual(sequential(0, theme));
    expect(signed(-1, theme)).not.toEqual(signed(1, theme));
    expect(palette(false, theme)[128]).toBe(palette(true, theme)[0]);
  }
});

test("surprisal has a level for each two bits", () => {
  expect([0, 2, 3.9, 16, 60].map((bits) => surprisalLevel(bits * Math.LN2))).toEqual([0, 1, 2, 8, 8]);
  expect(surprisalLevel(null)).toBe(0);
  expect(INK.light[0]).not.toBe(INK.light[1]);
});

function hex(colour: readonly number[]): string {
  return `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
