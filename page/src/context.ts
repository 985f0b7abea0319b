import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Store } from "./store";

export const StoreContext = createContext<Store | null>(null);

export function useStore(): Store {
  return useContext(StoreContext)!;
}
