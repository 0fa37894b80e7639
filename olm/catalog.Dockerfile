# The image of the catalog, for both versions of OLM: data alone. The context is this folder, after make catalog.
FROM scratch
LABEL operators.operatorframework.io.index.configs.v1=/configs
COPY catalog /configs
