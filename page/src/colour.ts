// One sequential scale (blue) for weights and surprisal, and one signed scale (orange, blue) for differences.
// Both keep their order for colour-blind eyes, because lightness changes evenly along them.

export type Theme = "light" | "dark";
type Rgb = readonly [number, number, number];

const STOPS: Record<Theme, readonly string[]> = {
  light: ["#ffffff", "#e9f1fa", "#cfe1f3", "#aecdea", "#86b3de", "#2f6cb0", "#1f5699", "#133f7a", "#0a2a58"],
  dark: ["#15181c", "#18283a", "#1b3a59", "#1f4c78", "#265f96", "#77b1e8", "#97c5f0", "#b9d9f7", "#def0ff"],
};
const SIGNED: Record<Theme, readonly [string, string, string]> = {
  light: ["#b35300", "#ffffff", "#1f5699"],
  dark: ["#ffa04d", "#15181c", "#77b1e8"],
};
export const INK: Record<Theme, readonly [string, string]> = {
  light: ["#1b1f24", "#ffffff"],
  dark: ["#eceae4", "#0d1116"],
};
export const LEVELS = 9;
const FLIP = 5; // from this level on, text has the other colour

function rgb(hex: string): Rgb {
  const number = parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

function mix(first: Rgb, second: Rgb, share: number): Rgb {
  const at = (i: 0 | 1 | 2) => Math.round(first[i] + (second[i] - first[i]) * share);
  return [at(0), at(1), at(2)];
}

/** The colour of a share between 0 and 1. */
export function sequential(share: number, theme: Theme): Rgb {
  const stops = STOPS[theme];
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const first = Math.min(stops.length - 2, Math.floor(place));
  return mix(rgb(stops[first]!), rgb(stops[first + 1]!), place - first);
}

/** The colour of a number between -1 and 1. */
export function signed(number: number, theme: Theme): Rgb {
  const [low, middle, high] = SIGNED[theme];
  const share = Math.min(1, Math.abs(number));
  return mix(rgb(middle), rgb(number < 0 ? low : high), share);
}

/** 256 colours for bytes: square roots of weights, or signed numbers around 128. */
export function palette(weighs: boolean, theme: Theme): Uint32Array {
  const colours = new Uint32Array(256);
  for (let byte = 0; byte < 256; byte++) {
    const [r, g, b] = weighs ? sequential(byte / 255, theme) : signed((byte - 128) / 127, theme);
    colours[byte] = (255 << 24) | (b << 16) | (g << 8) | r; // little-endian RGBA
  }
  return colours;
}

/** The class of a token's background, from its surprisal in bits: 0 for expected, 8 for 16 bits or more. */
export function surprisalLevel(nats: number | null): number {
  if (nats === null) return 0;
  return Math.min(LEVELS - 1, Math.round(nats / Math.LN2 / 2));
}

/** The class of a background on the same scale, from a share between 0 and 1. */
export function shareClass(share: number): string {
  return `s${Math.min(LEVELS - 1, Math.round(share * (LEVELS - 1)))}`;
}

export function stop(level: number, theme: Theme): string {
  return STOPS[theme][level]!;
}

export function inkOn(level: number, theme: Theme): string {
  return INK[theme][level >= FLIP ? 1 : 0];
}

/** Put the scale into the variables of the style sheet, so that it has one source. */
export function paint(theme: Theme, root: HTMLElement): void {
  root.dataset.theme = theme;
  for (let level = 0; level < LEVELS; level++) {
    root.style.setProperty(`--s${level}`, level ? stop(level, theme) : "transparent");
    root.style.setProperty(`--t${level}`, inkOn(level, theme));
  }
  root.style.setProperty("--less", SIGNED[theme][0]);
  root.style.setProperty("--more", SIGNED[theme][2]);
}

/** The contrast of two colours (WCAG 2, 1.4.3). */
export function contrast(first: string, second: string): number {
  const light = (hex: string) => {
    const [r, g, b] = rgb(hex).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [light(first), light(second)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}
