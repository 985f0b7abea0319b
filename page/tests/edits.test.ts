import { expect, test } from "vitest";
import { add, asCommand, asPython, change, current, EMPTY, inWords, isSilent, redo, toggleSilence, undo, type Edit } from "../src/edits";

const set = (column: number, value: number): Edit => ({ do: "set", site: "a", rows: [3], columns: [column], value });

test("undo and redo walk through the states", () => {
  let history = change(EMPTY, [set(1, 0.5)]);
  history = change(history, [set(1, 0.5), set(2, 0.1)]);
  expect(current(undo(history))).toEqual([set(1, 0.5)]);
  expect(current(undo(undo(undo(history))))).toEqual([]);
  expect(current(redo(undo(history)))).toEqual(current(history));
  expect(redo(change(undo(history), []))).toEqual(change(undo(history), []));
});

test("a drag is one step of undo", () => {
  let history = change(EMPTY, [set(1, 0.1)]);
  history = change(history, [set(1, 0.2)], true);
  history = change(history, [set(1, 0.3)], true);
  expect(current(history)).toEqual([set(1, 0.3)]);
  expect(current(undo(history))).toEqual([]);
});

test("an edit at the same place replaces the earlier one and comes last", () => {
  expect(add([set(1, 0.5), set(2, 0.3)], set(1, 0.9))).toEqual([set(2, 0.3), set(1, 0.9)]);
});

test("a head is silenced and speaks again", () => {
  const silent = toggleSilence([], "a", 2);
  expect(isSilent(silent, "a", 2)).toBe(true);
  expect(isSilent(silent, "a", 1)).toBe(false);
  expect(toggleSilence(silent, "a", 2)).toEqual([]);
});

test("commands survive quotes in the text", () => {
  expect(asCommand({ path: "runs/a b", text: "it's", target: null, scene: null }, [])).toBe(`regard look 'runs/a b' --text 'it'\\''s' --edit '[]'`);
  const drawn = { path: "c", text: "", target: "a ring", scene: { id: "3", file: null } };
  expect(asCommand(drawn, [])).toBe("[ -d lab-scenes ] || regard scenes lab-scenes --unseen --count 12; regard look 'c' --image lab-scenes/03.png --text 'a ring' --edit '[]'");
  expect(asCommand({ ...drawn, scene: { id: "own-0", file: "/a b/c.png" } }, [])).toBe("regard look 'c' --image '/a b/c.png' --text 'a ring' --edit '[]'");
  expect(asPython({ path: "a", text: 'say "x"\n', target: "y", scene: null }, [set(1, 0.5)])).toContain(`regard.look("a", "say \\"x\\"\\n", target="y", edit=edits)`);
});

test("an edit in words names the words", () => {
  const names = (place: number) => `w${place}`;
  expect(inWords(set(1, 0.5), names, names)).toBe("set a at “w3” to “w1” = 0.5");
});
