EXTRA_DIST += packaging/check packaging/fuzz-smoke packaging/packages.sh packaging/quickstart
dist_man_MANS += packaging/man/skep-keeper.1
dist_man_MANS += packaging/man/skep.1 packaging/man/skepd.1
