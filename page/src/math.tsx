import { h, type ComponentChild } from "preact";

const TAGS = new Set("math mrow mi mo mn mtext mspace msub msup msubsup mfrac msqrt mroot munder mover munderover mtable mtr mtd mpadded mphantom mstyle".split(" "));
const ATTRIBUTES = new Set("display stretchy fence form linethickness columnalign mathvariant accent width minsize maxsize movablelimits separator".split(" "));

/** A formula. The server sends MathML; only the elements of formulas are shown, and never as markup. */
export function Formula({ math }: { math: string }) {
  const parsed = new DOMParser().parseFromString(math, "application/xml");
  return (
    <div class="formula" role="group" aria-label="Formula" tabIndex={0}>
      {element(parsed.documentElement)}
    </div>
  );
}

function element(node: Element): ComponentChild {
  const children = Array.from(node.childNodes, (child) => (child instanceof Element ? element(child) : child.textContent));
  if (!TAGS.has(node.localName)) return children;
  const kept = Array.from(node.attributes).filter((one) => ATTRIBUTES.has(one.name));
  return h(node.localName, Object.fromEntries(kept.map((one) => [one.name, one.value])), ...children);
}
