# Every target calls tools of the project's own virtual environment, which `make setup` creates.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
COMPILED := .venv/.compiled
JOBS ?= 2
OUT ?= out

.DEFAULT_GOAL := help
.PHONY: help setup extras demo test test-browser test-long lint style types imports quick bench goldens docs docs-site release pythons moved serving-papers training-papers run-papers cluster-papers learning-papers programs-papers laws-papers technique-pages learning-orderings screenshots targets calibrate-catalog calibrate-serving calibrate-serving-power leave-out accuracy accuracy-reasoning accuracy-runs corpus handtuned torch real fuzz crash mutants mutants-index clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(STAMP)  ## create .venv with both distributions and the development tools

$(STAMP): pyproject.toml workshop/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -e ./workshop -c constraints.txt
	touch $@

$(COMPILED): $(STAMP)
	@$(BIN)/windtunnel doctor --warm
	@touch $@

demo: setup  ## predict Llama-3.1-70B on 64 H100; writes a trace and an HTML report to out/
	mkdir -p $(OUT)
	$(BIN)/windtunnel train examples/llama3-70b-64xh100.yaml --against 14.6-14.7 \
		--trace $(OUT)/trace.json --report $(OUT)/report.html

lint: style types imports  ## style, types and import order

style: setup
	$(BIN)/ruff check src workshop tests benchmarks examples scripts conftest.py
	$(BIN)/ruff format --check --quiet src workshop tests benchmarks examples scripts conftest.py

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

test: $(COMPILED)  ## lint and everything but the slow tests, side by side
	@$(MAKE) --no-print-directory -j 2 quick lint

quick: $(COMPILED)
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not slow" --benchmark-disable

test-browser: extras  ## the studio in Chromium (scripts/install-browser); skips where no browser can be had
	$(BIN)/pytest -m slow tests/integration/test_studio.py tests/integration/test_studio_browser.py || [ $$? -eq 5 ]

extras: setup  ## the optional packages: web server, browser driver, protocol, Ray, scikit-learn
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[learn,mcp,ray,studio]' playwright \
		|| echo "not all extras can be installed: the tests that need them skip"

targets:  ## .venv-targets: the programs that launch files are for, as far as the index has them
	@PYTHON=$(abspath $(BIN))/python scripts/install-targets

fuzz: $(COMPILED)  ## wrong input at every entry point, from the schema: make fuzz MINUTES=20 SEED=1 (CASES=10000: so many instead)
	$(BIN)/python tests/fuzz/fuzz_run.py --minutes $(or $(MINUTES),$(if $(CASES),0,20)) $(if $(CASES),--cases $(CASES)) \
		$(if $(SEED),--seed $(SEED)) --out $(OUT)/fuzz

crash: $(COMPILED)  ## sweeps killed, damaged and written twice, compared with an uninterrupted one: make crash ROUNDS=50 SEED=1 (RAY=1: on Ray)
	WINDTUNNEL_CRASH_ROUNDS=$(or $(ROUNDS),50) $(if $(SEED),WINDTUNNEL_CRASH_SEED=$(SEED)) $(if $(RAY),WINDTUNNEL_CRASH_RAY=1) \
		$(BIN)/pytest -m slow -rA tests/integration/test_sweep_crashes.py

mutants: $(COMPILED)  ## damage 300 executed lines, one at a time: which do tests not notice? (an hour; MUTANTS=300 SEED=29 ONLY=network/)
	PYTHONPATH=tests/mutants $(BIN)/python tests/mutants/mutants_run.py --mutants $(or $(MUTANTS),300) --seed $(or $(SEED),29) \
		--jobs $(JOBS) --only "$(ONLY)"

mutants-index: $(COMPILED)  ## record which test executes which lines, for make mutants; files recorded as they are stay (half an hour for all)
	-PYTHONPATH=tests/mutants $(BIN)/pytest -q -p mutant_coverage -n $(JOBS) --dist loadgroup -m "not slow" --benchmark-disable
	-PYTHONPATH=tests/mutants NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -p mutant_coverage -n $(JOBS) --dist loadgroup \
		-m "not slow" --benchmark-disable tests/unit/engine tests/unit/serving tests/unit/clusters tests/unit/runs tests/property

torch: setup  ## PyTorch into .venv, where the index has it
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 \
		|| echo "PyTorch cannot be installed: the tests that need it skip"

real: torch  ## real small steps on this machine beside their predictions; alone on its cores
	$(BIN)/pytest -p no:xdist -m slow tests/integration/test_real_runs.py || [ $$? -eq 5 ]

test-long: setup extras targets real  ## slow tests, validation on the rows we ship, the papers, speed figures (not asserted)
	mkdir -p $(OUT)
	$(BIN)/windtunnel reproduce --json > $(OUT)/claims.json
	WINDTUNNEL_CLAIMS=$(abspath $(OUT))/claims.json $(BIN)/pytest -n $(JOBS) --dist loadfile -m slow --benchmark-disable --ignore tests/integration/test_real_runs.py || [ $$? -eq 5 ]
	$(BIN)/windtunnel validate
	$(BIN)/windtunnel validate --family narayanan-t1 --family simumax-b200-memory --gate mape=0.06
	$(BIN)/windtunnel validate --family vtrain-multi --family llm-foundry --gate mape=0.12
	$(BIN)/python benchmarks/bench_training.py

bench: setup  ## speed figures
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python benchmarks/bench_engine.py
	$(BIN)/python benchmarks/bench_planner.py
	$(BIN)/python benchmarks/bench_serving.py
	$(BIN)/python benchmarks/bench_programs.py
	$(BIN)/python benchmarks/bench_serving_planner.py
	$(BIN)/python benchmarks/bench_advise.py
	$(BIN)/python benchmarks/bench_runs.py
	$(BIN)/python benchmarks/bench_learning.py
	$(BIN)/python benchmarks/bench_learning_arrivals.py

goldens: setup  ## write the stored predictions of the examples anew
	WINDTUNNEL_REGENERATE=1 $(BIN)/pytest tests/golden/test_training_golden.py tests/golden/test_command_golden.py \
		tests/golden/test_export_golden.py tests/golden/test_defaults_golden.py tests/golden/test_formula_golden.py -p no:xdist -q

serving-papers: $(COMPILED)  ## re-run the claims of papers on serving (3 minutes), rewrite docs/generated/serving_papers.md
training-papers: $(COMPILED)  ## re-run the claims of papers on training (2 minutes), rewrite docs/generated/training_papers.md
run-papers: $(COMPILED)  ## re-run the claims of papers on whole runs, rewrite docs/generated/run_papers.md
cluster-papers: $(COMPILED)  ## re-run the claims of papers on clusters of jobs, rewrite docs/generated/cluster_papers.md
learning-papers: $(COMPILED)  ## re-run the claims of papers on learning, rewrite docs/generated/learning_papers.md
laws-papers: $(COMPILED)  ## re-run the claims of papers on scaling laws and test-time compute, rewrite docs/generated/laws_papers.md
serving-papers training-papers run-papers cluster-papers learning-papers programs-papers laws-papers: %-papers:
	mkdir -p $(OUT)
	$(BIN)/windtunnel reproduce --acts-on $* --json > $(OUT)/$@.json
	$(BIN)/python -m windtunnel_lab.reproduce.pages.claims_page $* $(OUT)/$@.json > docs/generated/$*_papers.md

learning-orderings: $(COMPILED)  ## train what published orders of learning algorithms need (20 minutes), rewrite docs/generated/learning_orderings.md
	$(BIN)/python -m windtunnel_lab.reproduce.pages.learning_orderings

technique-pages: $(COMPILED)  ## rewrite docs/generated/techniques/; gain maps of new techniques, of all with ALL=1
	$(BIN)/python -m windtunnel_lab.reproduce.pages.gain_maps $(if $(ALL),--all) --jobs $(JOBS)
	$(BIN)/python -m windtunnel_lab.reproduce.pages.technique_pages

screenshots: setup  ## draw the pictures of the documentation anew (needs Chromium: scripts/install-browser)
	scripts/screenshots

docs: setup  ## refresh generated files: the JSON Schema of scenarios, the table of coefficients
	mkdir -p docs/generated
	$(BIN)/python -m windtunnel.specs.schema > docs/generated/scenario.schema.json
	$(BIN)/python -m windtunnel_lab.accuracy.coefficient_table > docs/generated/coefficients.md
	$(BIN)/python scripts/write_reference.py

docs-site: docs  ## the documentation as a site in site/: zensical, or mkdocs-material where the index lacks it
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check zensical==0.1.2 2>/dev/null \
		|| .venv-docs/bin/pip install --quiet --disable-pip-version-check mkdocs-material==9.8.1
	$(PYTHON) scripts/site_pages.py build/docs
	if test -x .venv-docs/bin/zensical; then .venv-docs/bin/zensical build --clean; else .venv-docs/bin/mkdocs build --quiet; fi
	$(PYTHON) scripts/check_site.py site

release:  ## build wheels and source archives into dist/, check them, run each in a fresh environment (25 minutes; URL=ADDRESS of the repository, PYTHONS=3.11)
	$(PYTHON) scripts/release.py $(if $(URL),--url $(URL)) $(if $(PYTHONS),--pythons $(PYTHONS))

pythons:  ## commands and stored predictions on each Python from 3.11 up that is here, and at the lowest versions (ONLY=3.12, ONLY=lowest)
	$(PYTHON) scripts/pythons.py $(if $(ONLY),--only $(ONLY))

moved: $(COMPILED)  ## predictions of the examples that moved since a tag or commit, and by how much: make moved SINCE=TAG (ONLY=serving)
	$(BIN)/python scripts/moved.py $(or $(SINCE),$(error SINCE=TAG is missing)) $(if $(ONLY),--only $(ONLY))

calibrate-catalog: setup  ## refit the coefficients and out-of-fold residuals to measured rows: make calibrate-catalog ROWS=rows.json
	$(BIN)/python -m windtunnel_lab.fit.refit_training $(ROWS)

calibrate-serving: setup  ## refit the coefficients of serving engines and their residuals to measured rows: make calibrate-serving ROWS=serving.json
	$(BIN)/python -m windtunnel_lab.fit.refit_serving $(ROWS)
	$(BIN)/python -m windtunnel_lab.accuracy.serving_not_predicted $(ROWS) > docs/generated/serving-not-predicted.md
	$(BIN)/python -m windtunnel_lab.fit.serving_leave_out --page > docs/accuracy/serving-left-out.md
	$(BIN)/python -m windtunnel_lab.accuracy.serving_judges > docs/accuracy/serving-judges.md
	$(BIN)/python -m windtunnel_lab.accuracy.serving_memory > docs/accuracy/serving-memory.md
	$(BIN)/python -m windtunnel_lab.accuracy.calibrated_server $(dir $(ROWS)) > docs/accuracy/serving-calibrated.md

calibrate-serving-power: setup  ## refit the power of serving devices to measured rows: make calibrate-serving-power ROWS=power.json
	$(BIN)/python -m windtunnel_lab.fit.refit_serving_power $(ROWS)

leave-out: setup  ## predict ROWS without their family (BY=device, framework, release, all), all refitted (6 minutes, then seconds); BY=set: serving rows (15 minutes)
	mkdir -p $(OUT)
	$(BIN)/python -m windtunnel_lab.fit.$(if $(filter set,$(BY)),serving_leave_out $(ROWS),leave_out_table $(ROWS) --by $(or $(BY),family) --cache $(OUT)/leave-out --out $(OUT)/leave-out.json)

accuracy: setup  ## rewrite docs/accuracy/training.md from the rows we ship, or from ROWS
	$(BIN)/python -m windtunnel_lab.accuracy.write_page $(if $(ROWS),--rows $(ROWS))
	$(BIN)/python -m windtunnel_lab.accuracy.by_version > docs/accuracy/by-version.md

accuracy-reasoning: setup  ## rewrite docs/accuracy/reasoning.md from ROWS (problem_successes.json reasoning_quality.json)
	$(BIN)/python -m windtunnel_lab.accuracy.reasoning_table $(ROWS) > docs/accuracy/reasoning.md

accuracy-runs: setup  ## rewrite docs/accuracy/runs.md: published runs of weeks beside their predictions
	$(BIN)/python -m windtunnel_lab.accuracy.published_days > docs/accuracy/runs.md

corpus: $(COMPILED)  ## import the files of tests/conformance/public_files.yaml, rewrite docs/accuracy/imports.md: make corpus SNAPSHOTS=FOLDER of clones OWNER/NAME
	$(BIN)/python tests/conformance/corpus_run.py $(if $(SNAPSHOTS),--snapshots $(SNAPSHOTS)) --page docs/accuracy/imports.md --out $(OUT)/corpus

handtuned: setup  ## rewrite docs/generated/planner-vs-published.md: the planner against the plans of measured rows (make handtuned ROWS=rows.json)
	mkdir -p $(OUT)
	$(BIN)/python -m windtunnel_lab.planner_vs_published $(ROWS) --out docs/generated/planner-vs-published.md --lines $(OUT)/handtuned.jsonl --jobs $(JOBS)

clean:  ## remove caches and outputs, keep .venv
	rm -rf $(OUT) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find src workshop tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
