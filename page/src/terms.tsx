import { useStore } from "./context";
import { percent, visible } from "./format";
import type { Read } from "./protocol";

/** For families without sites: each word's probability as the sum of its terms, such as an n-gram's orders. */
export function TermsByWord({ read }: { read: Read }) {
  const { place } = useStore();
  const names = [...new Set(read.terms.flatMap((terms) => terms.map(([name]) => name)))].sort((a, b) =>
    a.localeCompare(b, "en", { numeric: true }),
  );
  const level = (name: string) => 1 + Math.round((names.indexOf(name) * 7) / Math.max(1, names.length - 1));
  return (
    <section class="orders" aria-label="Terms of every prediction">
      <h2>Where each probability comes from</h2>
      <ul class="legend">
        {names.map((name) => (
          <li key={name}>
            <span class={`swatch s${level(name)}`} /> {name}
          </li>
        ))}
      </ul>
      <table class="bars">
        <tbody>
          {read.tokens.map((token, at) => {
            const terms = read.terms[at]!;
            const sum = terms.reduce((total, [, value]) => total + Math.abs(value), 0) || 1;
            if (at === 0) return null;
            return (
              <tr key={at} class={place.value === at ? "here" : ""}>
                <th scope="row">
                  <button class="link plain" aria-pressed={place.value === at} onClick={() => (place.value = at)}>
                    {visible(token)}
                  </button>
                </th>
                <td class="stack">
                  {[...terms]
                    .sort(([a], [b]) => names.indexOf(a) - names.indexOf(b))
                    .map(([name, value]) => (
                      <span key={name} class={`s${level(name)}`} title={`${name}: ${percent(value)}`} style={{ width: `${(Math.abs(value) / sum) * 100}%` }} />
                    ))}
                </td>
                <td class="number">{percent(Math.exp(-(read.surprisal[at] ?? Infinity)))}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
