// The one way in which values are announced between layers. Anyone may import it.

/** Ends what it stands for; ending twice does nothing. */
export interface Disposable {
  dispose(): void;
}

/** The side of a signal that listeners see. */
export interface Listenable<T> {
  connect(listener: (value: T) => void): Disposable;
}

/**
 * Calls its listeners in the order in which they connected; one that throws does not stop the
 * others.
 */
export class Signal<T> implements Listenable<T> {
  private readonly listeners = new Set<(value: T) => void>();

  connect(listener: (value: T) => void): Disposable {
    // A wrapper, so that one function connected twice is two connections.
    const own = (value: T): void => listener(value);
    this.listeners.add(own);
    return { dispose: () => void this.listeners.delete(own) };
  }

  emit(value: T): void {
    for (const listener of [...this.listeners]) {
      try {
        listener(value);
      } catch (error) {
        console.error('ag_visual: a listener failed', error);
      }
    }
  }

  clear(): void {
    this.listeners.clear();
  }
}
