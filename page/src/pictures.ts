// An image file of a person, small enough for a question to the server.

import { Failed } from "./channel";

const MOST_BYTES = 1_350_000; // of a file that is sent as it is
const LONGEST = 1024; // pixels on the longer side
const LARGEST_FILE = 60_000_000; // bytes of a file that is read at all

/** The file in base64: its own bytes if they are few, or a smaller copy. */
export async function asQuestion(file: File): Promise<string> {
  if (file.size > LARGEST_FILE) throw new Failed(`${file.name} is too large: choose an image below 60 MB`);
  let picture: ImageBitmap;
  try {
    picture = await createImageBitmap(file);
  } catch {
    throw new Failed(`${file.name} is not an image that this browser can read`);
  }
  const longer = Math.max(picture.width, picture.height);
  if (file.size <= MOST_BYTES && longer <= LONGEST) return inBase64(file);
  const scale = Math.min(1, LONGEST / longer);
  const [wide, high] = [Math.max(1, Math.round(picture.width * scale)), Math.max(1, Math.round(picture.height * scale))];
  const canvas = new OffscreenCanvas(wide, high);
  const pen = canvas.getContext("2d")!;
  pen.fillStyle = "#fff"; // transparency becomes white, as in regard look
  pen.fillRect(0, 0, wide, high);
  pen.drawImage(picture, 0, 0, wide, high);
  return inBase64(await canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 }));
}

async function inBase64(blob: Blob): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
