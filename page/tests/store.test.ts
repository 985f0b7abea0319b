import { expect, test, vi } from "vitest";
import { Dropped, Failed, Gone, SERVER, type Channel } from "../src/channel";
import type { Read, ReadQuestion, RunInfo } from "../src/protocol";

vi.stubGlobal("location", { hash: "", pathname: "/" });
vi.stubGlobal("window", { history: { replaceState: () => {} } });
vi.stubGlobal("matchMedia", () => ({ matches: false }));
const { makeStore } = await import("../src/store");

const run = { id: "r0", name: "a", path: "a", family: "transformer", tokens: "word", reads: "text", loss: null } as RunInfo;

/** A channel whose answers come when the test lets them. */
function held() {
  const asked: { question: ReadQuestion; answer: (read: Read) => void; fail: (error: Error) => void }[] = [];
  const channel = {
    host: SERVER,
    runs: async () => ({ runs: [run], training: false }),
    read: (question: ReadQuestion) =>
      new Promise<Read>((answer, fail) => {
        asked.push({ question, answer, fail });
      }),
  } as unknown as Channel;
  return { asked, channel };
}

const wait = (milliseconds: number) => new Promise((wake) => setTimeout(wake, milliseconds));
const read = (...tokens: string[]) => ({ tokens }) as Read;

test("answers to an older text are dropped, and the old answer stays until the new one", async () => {
  const { asked, channel } = held();
  const store = makeStore(channel);
  await store.loadRuns();
  await wait(60);
  asked[0]!.answer(read("first"));
  await wait(5);
  store.setText("one");
  await wait(60);
  store.setText("two");
  await wait(60);
  expect(asked.map((one) => one.question.text).slice(1)).toEqual(["one", "two"]);
  expect(store.reading.value).toMatchObject({ read: { tokens: ["first"] }, asking: true });
  asked[2]!.answer(read("two"));
  asked[1]!.answer(read("one"));
  await wait(5);
  expect(store.reading.value).toMatchObject({ read: { tokens: ["two"] }, of: { text: "two" }, asking: false });
});

test("a first visit shows a Transformer", async () => {
  const { channel } = held();
  const other = { ...run, id: "r1", family: "transformer-captioner" };
  const store = makeStore({ ...channel, runs: async () => ({ runs: [other, run], training: false }) });
  await store.loadRuns();
  expect(store.chosen.value).toEqual(["r0"]);
});

test("quick typing asks once", async () => {
  const { asked, channel } = held();
  const store = makeStore(channel);
  await store.loadRuns();
  await wait(60);
  for (const text of ["a", "ab", "abc"]) store.setText(text);
  await wait(60);
  expect(asked.map((one) => one.question.text).slice(1)).toEqual(["abc"]);
});

test("a mistake is told beside the last answer, and a lost connection is remembered", async () => {
  const { asked, channel } = held();
  const store = makeStore(channel);
  await store.loadRuns();
  await wait(60);
  asked[0]!.fail(new Failed("shorten it"));
  await wait(5);
  expect(store.reading.value).toMatchObject({ error: "shorten it", asking: false });
  store.edit([{ do: "silence", site: "a", heads: [0] }]);
  await wait(60);
  expect(asked[1]!.question.edits).toEqual([{ do: "silence", site: "a", heads: [0] }]);
  asked[1]!.fail(new Gone());
  await wait(5);
  expect(store.connection.value).toBe("gone");
  store.undo();
  await wait(60);
  expect(asked[2]!.question.edits).toEqual([]);
  asked[2]!.fail(new Dropped());
  await wait(5);
  expect(store.reading.value).toMatchObject({ asking: true }); // a newer question is on its way
});
