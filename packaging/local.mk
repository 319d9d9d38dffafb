EXTRA_DIST += packaging/check packaging/packages.sh packaging/quickstart
