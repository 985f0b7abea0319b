import type { ComponentChildren } from "preact";

interface Props {
  what: string; // the outcomes that the rows name
  bars: readonly [string, string]; // the pale bar above, and the strong one below
  numbers: readonly [string, string];
  children: ComponentChildren; // the rows
}

/** A table of outcomes with two bars and two numbers each. */
export function TwoBars({ what, bars, numbers, children }: Props) {
  return (
    <table class="bars two">
      <colgroup>
        <col class="c-word" />
        <col />
        <col class="c-number" />
        <col class="c-number" />
      </colgroup>
      <thead>
        <tr>
          <th scope="col">{what}</th>
          <th scope="col" class="bar">
            <span class="key old" /> {bars[0]} <span class="key new" /> {bars[1]}
          </th>
          {numbers.map((name) => (
            <th scope="col" class="number" key={name}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
