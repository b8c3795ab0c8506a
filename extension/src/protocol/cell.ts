// One fact that changes, and who wants to know of it. Anyone may import it.

import type { Disposable } from './signal';
import { Signal } from './signal';

/** What a listener sees of a cell: the value, and its changes. */
export interface ReadonlyCell<T> {
  readonly value: T;
  subscribe(listener: () => void): () => void;
}

/** Holds one value; setting another one tells who subscribed, setting the same one nobody. */
export class Cell<T> implements ReadonlyCell<T>, Disposable {
  private readonly changed = new Signal<void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (!Object.is(value, this.current)) {
      this.current = value;
      this.changed.emit();
    }
  }

  /** An arrow function, as React takes it apart from its object. */
  subscribe = (listener: () => void): (() => void) => {
    const connection = this.changed.connect(listener);
    return () => connection.dispose();
  };

  dispose(): void {
    this.changed.clear();
  }
}
