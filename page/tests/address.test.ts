import { expect, test } from "vitest";
import { decode, editsOf, encode, type Place } from "../src/address";

const place: Place = {
  view: "attend", runs: ["runs/a b", "x&y"], text: "a #?&=\n“é”", target: "z", scene: "own-7", words: true, site: "layer0.attention", head: 2,
  rows: [0, 7], form: "map", edits: [{ do: "silence", site: "layer0.attention", heads: [1] }],
  lesson: null, settings: {},
};

test("a link restores the view", () => {
  expect(decode(encode(place))).toEqual(place);
  const lesson: Place = { ...place, view: "lessons", site: null, head: -1, rows: [], form: "arcs", lesson: "attention", settings: { q: "0,1", "W_K": "1=2;&" } };
  expect(decode(encode(lesson))).toEqual(lesson);
});

test("nonsense in a link is the beginning", () => {
  for (const hash of ["", "#", "#nowhere?head=x&rows=a.b&edit={", "#read?edit=[1,null]&head=-7"]) {
    const found = decode(hash);
    expect([found.view, found.head, found.rows, found.edits]).toEqual(["read", -1, [], []]);
  }
});

test("edits are objects with do and site", () => {
  expect(editsOf('{"do":"mean","site":"a"}')).toEqual([{ do: "mean", site: "a" }]);
  expect(editsOf('[{"do":1,"site":"a"}]')).toEqual([]);
});
