def test_extension_loads(lab):
    lab.open("hello/one.ipynb", ["1 + 1", "print('x')"], theme="JupyterLab Dark")
    assert lab.run(0).strip() == "2"
    names = lab.page.evaluate("() => window.jupyterapp.listPlugins()")
    assert "ag-visual-inspector:plugin" in names
    lab.screenshot("hello")
