# One word each; what they run stands here and in CONTRIBUTING.md.
.PHONY: install front check test ci wheel oldest python313 bench docs images clean

install:          ## an editable install with everything to work on it
	pip install -e ".[test,oracle,docs,check]"

front:            ## build the front end: node_modules once, then a few seconds
	cd extension && jlpm install --immutable && npm run -s build

check:            ## format, lint and types of Python, types of the front end, layers, the front end's unit tests
	ruff format --check . && ruff check . && mypy && pytest -q tests/layers
	cd extension && npm run -s check && npm run -s test

test:             ## the whole Python suite, browser tests included
	pytest

ci:               ## what CI runs, from the system packages on
	bash .ci/run

wheel:            ## a wheel and an sdist, installed without Node
	bash .ci/wheel

oldest:           ## the suite on the lowest versions that pyproject.toml allows
	bash .ci/versions oldest

python313:        ## the suite on Python 3.13 and the newest packages, in a Debian of its own
	bash .ci/versions python313

bench:            ## ratios to torch and autograd, measured interleaved
	python -m tests.bench

docs:             ## the documentation, warnings are errors
	sphinx-build -q -W --keep-going docs docs/_build/html

images:           ## take the screenshots that the documentation shows again
	pytest tests/ui --docs-images

clean:            ## what the front end's build left
	cd extension && npm run -s clean
