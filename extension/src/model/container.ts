// A group of a graph: nodes that follow each other in order of creation, so that gradient only
// flows from one group into a later one. Pure.

import type { Site } from '../protocol/schema';

export type ContainerKind =
  | 'root'
  /** a module's call */
  | 'call'
  /** what a transform (vmap, grad, jvp) computes */
  | 'level'
  /** a cell or a file, a function in it, a line */
  | 'code'
  | 'function'
  | 'line'
  /** turns of a loop or equal layers, and one of them where it is several lines or modules */
  | 'repeat'
  | 'turn'
  | 'layers'
  /** some of very many that stand side by side */
  | 'part'
  /** many nodes without a line */
  | 'loose';

export class Container {
  children: Container[] = [];
  /** turns of a repeat */
  times = 0;
  private ordinal = 0;
  private known = '';

  constructor(
    readonly kind: ContainerKind,
    /** equal for containers of the same code or module */
    readonly base: string,
    public title: string,
    public detail: string,
    public site: Site | null,
    /** node indexes, the first one and the one after the last */
    public first: number,
    public last: number,
    public parent: Container | null
  ) {}

  get nodes(): number {
    return this.last - this.first;
  }

  /** Drawn as a frame around its nodes when it is open. */
  get framed(): boolean {
    return this.children.length === 0 && this.site !== null;
  }

  /** The same for the same part of another pass of the same program. */
  get key(): string {
    if (this.known === '') {
      const above = this.parent ? this.parent.key : '';
      this.known = `${above}/${this.base}${this.ordinal > 0 ? `~${this.ordinal}` : ''}`;
    }
    return this.known;
  }

  /** Numbers children of the same base, the oldest first. */
  settle(): void {
    const seen = new Map<string, number>();
    for (let i = this.children.length - 1; i >= 0; i--) {
      const child = this.children[i];
      const before = seen.get(child.base) ?? 0;
      seen.set(child.base, before + 1);
      child.ordinal = before;
      child.parent = this;
    }
  }

  /** This one and those around it, the root left out, the innermost first. */
  *chain(): Generator<Container> {
    for (let at: Container | null = this; at && at.kind !== 'root'; at = at.parent) yield at;
  }
}

/** Containers that have a name of their own, which stays beside that of the line in it. */
export function isNamed({ kind }: { kind: ContainerKind }): boolean {
  return kind === 'call' || kind === 'level';
}
