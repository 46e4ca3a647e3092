# The front door. Everything here is a short call; the work is in CMakeLists.txt and scripts/.

BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
ARGS ?=
FUZZ_SECONDS ?= 30

RUN = . scripts/node-path &&
CONFIGURE = cmake -G Ninja -S . --log-level=WARNING -DSHP_WERROR=ON

.PHONY: help build build-sanitize demo check bench fuzz soak format install package helpers dist clean

help:
	@echo 'make build       programs in $(BUILD)/bin: shepherdr, shepherdr-helper, herdr-sim'
	@echo 'make demo        two machines from nothing, a worker spawned, its reply pushed back'
	@echo 'make check       build, C tests (plain and sanitized), npm test; one summary line'
	@echo 'make soak        the tests that have a longer form, in it   ARGS=<word of a file name>'
	@echo 'make bench       measurements beside their baselines      ARGS=--json'
	@echo 'make fuzz        libFuzzer over tests/fuzz (clang)         ARGS=<target> FUZZ_SECONDS=30'
	@echo 'make format      clang-format over the C sources'
	@echo 'make helpers     static helper for every architecture with a compiler here'
	@echo 'make install     shepherdr and its helper                  PREFIX=$(PREFIX) DESTDIR='
	@echo 'make dist        source archive of HEAD in $(BUILD)/dist'
	@echo 'make clean       removes the build folders'
	@echo 'First time: scripts/demo or scripts/check; both install what is missing.'

build:
	@$(CONFIGURE) -B $(BUILD) -DSHP_HELPER=static
	@cmake --build $(BUILD) -j $(JOBS)
	@sh scripts/build-ext $(BUILD)

build-sanitize:
	@$(CONFIGURE) -B $(BUILD)-asan -DCMAKE_BUILD_TYPE=Debug -DSHP_SANITIZE=ON
	@cmake --build $(BUILD)-asan -j $(JOBS)

demo: build
	@$(RUN) node tests/demo/demo.ts $(ARGS)

check:
	@$(RUN) BUILD=$(BUILD) JOBS=$(JOBS) sh scripts/run-tests

soak:
	@$(RUN) BUILD=$(BUILD) JOBS=$(JOBS) sh scripts/soak $(ARGS)

# Standard output is the result's alone.
bench:
	@$(MAKE) --no-print-directory build >&2
	@$(RUN) BUILD=$(BUILD) node tests/bench/bench.ts $(ARGS)

fuzz:
	@command -v clang >/dev/null || { echo 'make fuzz: clang is not installed (apt-get install clang)'; exit 1; }
	@$(CONFIGURE) -B $(BUILD)-fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DSHP_FUZZ=ON -DSHP_WERROR=OFF
	@cmake --build $(BUILD)-fuzz -j $(JOBS)
	@BUILD=$(BUILD) FUZZ_SECONDS=$(FUZZ_SECONDS) sh scripts/run-fuzz $(ARGS)

format:
	@command -v clang-format >/dev/null || { echo 'make format: clang-format is not installed'; exit 1; }
	@git ls-files -z '*.c' '*.h' ':!protocol/messages.*' | xargs -0 -r clang-format -i

install: build
	@DESTDIR='$(DESTDIR)' cmake --install $(BUILD) --prefix '$(PREFIX)'

helpers: build
	@sh scripts/build-helpers $(BUILD)

dist:
	@mkdir -p $(BUILD)/dist
	@version=$$(sed -n 's/^project(.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt) && \
	file=$(BUILD)/dist/shepherdr-$$version.tar.gz && \
	git archive --format=tar.gz --prefix=shepherdr-$$version/ -o "$$file" HEAD && echo "$$file"

package:
	@echo 'make $@: not part of this version yet'; exit 1

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz
