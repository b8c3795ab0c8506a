// What fails in one part of the panel stays in that part: it says so in words, the rest goes on.

import type { ErrorInfo, ReactNode } from 'react';
import { Component } from 'react';
import { oneLine } from '../protocol/text';

interface Props {
  /** what failed, as the reader calls it */
  part: string;
  /** class of the element that stands in the part's place */
  className?: string;
  children: ReactNode;
}

interface Failed {
  /** what was thrown, in words; null while all is well */
  failure: string | null;
}

export class Boundary extends Component<Props, Failed> {
  override state: Failed = { failure: null };

  static getDerivedStateFromError(error: unknown): Failed {
    return { failure: error instanceof Error ? error.message || error.name : String(error) };
  }

  override componentDidCatch(error: unknown, { componentStack }: ErrorInfo): void {
    console.error(`AG Visual Inspector: ${this.props.part} failed.`, error, componentStack);
  }

  override render(): ReactNode {
    const { part, className, children } = this.props;
    const { failure } = this.state;
    if (failure === null) {
      return children;
    }
    return (
      <div className={`${className ?? ''} agv-failed`} role="alert">
        <p>
          This part of the panel failed: {part}: {oneLine(failure, 300)}
        </p>
        <button type="button" className="agv-btn" onClick={() => this.setState({ failure: null })}>
          Try again
        </button>
      </div>
    );
  }
}
