EXTRA_DIST += schemas/update.md schemas/vectors/update-body.hex schemas/vectors/update-file.hex
EXTRA_DIST += schemas/openapi.yaml
