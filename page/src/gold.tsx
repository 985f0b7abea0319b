/** What the frames of a map and the dashed lines between words are. */
export function GoldKey() {
  return (
    <p class="note">
      <span class="gold-key" aria-hidden="true" /> Gold links: words that translate each other.
    </p>
  );
}
