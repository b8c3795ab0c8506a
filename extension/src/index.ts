import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'ag-visual-inspector:plugin',
  description: 'The Inspector: the backward graph of the active notebook, live.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    console.log('ag_visual Inspector', app.version);
  }
};

export default plugin;
