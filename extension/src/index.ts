// Entry of the JupyterLab extension.

import { plugin } from './host/lab';

export default plugin;
