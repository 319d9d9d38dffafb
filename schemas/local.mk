EXTRA_DIST += schemas/update.md schemas/vectors/update-body.hex schemas/vectors/update-file.hex \
    schemas/vectors/state.safetensors.hex schemas/vectors/foreign.safetensors.hex \
    schemas/vectors/manifest-lm.hex schemas/vectors/manifest-classifier.hex
EXTRA_DIST += schemas/openapi.yaml
EXTRA_DIST += schemas/caller.schema.json
EXTRA_DIST += schemas/envelope.schema.json
EXTRA_DIST += schemas/manifest.schema.json
EXTRA_DIST += schemas/message.schema.json
EXTRA_DIST += schemas/record.schema.json
EXTRA_DIST += schemas/seal.schema.json
EXTRA_DIST += schemas/update.schema.json
EXTRA_DIST += schemas/vectors/merge/README.md schemas/vectors/merge/corpus.txt
