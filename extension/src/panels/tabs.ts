// The tabs of the side, in their order. A tab is one line here, and one in `HIDDEN` of
// ag_visual/observe/record/lesson.py where a lesson can hide it.

import type { ComponentType } from 'react';
import type { Control } from '../protocol/schema';
import type { InspectorModel } from '../model/inspector';
import { Details } from './details';
import { HookList } from './hooks';
import { Jacobians } from './jacobians';
import { OutlineTree } from './outline_tree';
import { ParameterTable } from './parameters';
import type { Tab } from './presenter';
import { Problems } from './problems';
import { TensorTable } from './tensor_table';

export interface TabEntry {
  id: Tab;
  title: string | ((model: InspectorModel) => string);
  /** how a message calls what it shows, where that fails */
  part: string;
  Body: ComponentType;
  /** what a lesson hides it by; without one it is always there */
  control?: Control;
  /** where it says no, there is nothing that it could show: it is left out */
  shown?: (model: InspectorModel) => boolean;
  /** a number beside the title; 0 is not shown */
  count?: (model: InspectorModel) => number;
}

export const TABS: readonly TabEntry[] = [
  { id: 'node', title: m => (m.group ? 'Group' : 'Node'), part: 'the node', Body: Details },
  { id: 'outline', title: 'Outline', part: 'the outline', Body: OutlineTree, control: 'outline' },
  {
    id: 'parameters',
    title: 'Parameters',
    part: 'the parameters',
    Body: ParameterTable,
    control: 'parameters'
  },
  { id: 'tensors', title: 'Tensors', part: 'the tensors', Body: TensorTable, control: 'tensors' },
  { id: 'hooks', title: 'Hooks', part: 'the hooks', Body: HookList, control: 'hooks' },
  {
    id: 'jacobians',
    title: 'Jacobians',
    part: 'the Jacobians',
    Body: Jacobians,
    control: 'values',
    shown: m => (m.store.state.jacobians ?? 0) > 0
  },
  {
    id: 'problems',
    title: 'Problems',
    part: 'the problems',
    Body: Problems,
    control: 'problems',
    count: m =>
      m.openProblems.length + m.findings.filter(({ matters, solved }) => matters && !solved).length
  }
];
