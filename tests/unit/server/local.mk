UNIT_TESTS += tests/unit/server/test-audit-queue tests/unit/server/test-audit-verdict \
    tests/unit/server/test-evidence tests/unit/server/test-experts-pass tests/unit/server/test-experts-queue tests/unit/server/test-experts-sessions \
    tests/unit/server/test-options tests/unit/server/test-reply tests/unit/server/test-router \
    tests/unit/server/test-shape
tests_unit_server_test_experts_pass_SOURCES = tests/unit/server/test-experts-pass.c
tests_unit_server_test_experts_pass_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_experts_queue_SOURCES = tests/unit/server/test-experts-queue.c
tests_unit_server_test_experts_queue_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_experts_sessions_SOURCES = tests/unit/server/test-experts-sessions.c
tests_unit_server_test_experts_sessions_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_router_SOURCES = tests/unit/server/test-router.c
tests_unit_server_test_router_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_reply_SOURCES = tests/unit/server/test-reply.c
tests_unit_server_test_reply_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_shape_SOURCES = tests/unit/server/test-shape.c tests/lib/tiny-model.h
tests_unit_server_test_shape_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_options_SOURCES = tests/unit/server/test-options.c
tests_unit_server_test_options_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
KEEPER_SCENE = tests/unit/server/keeper-scene.c tests/unit/server/keeper-scene.h tests/lib/tiny-model.h
UNIT_TESTS += tests/unit/server/test-intake tests/unit/server/test-good-updates tests/unit/server/test-audit-shown \
    tests/unit/server/test-audit-lots
tests_unit_server_test_intake_SOURCES = tests/unit/server/test-intake.c $(KEEPER_SCENE)
tests_unit_server_test_intake_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_good_updates_SOURCES = tests/unit/server/test-good-updates.c $(KEEPER_SCENE)
tests_unit_server_test_good_updates_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_audit_shown_SOURCES = tests/unit/server/test-audit-shown.c $(KEEPER_SCENE)
tests_unit_server_test_audit_shown_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_audit_lots_SOURCES = tests/unit/server/test-audit-lots.c $(KEEPER_SCENE)
tests_unit_server_test_audit_lots_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/server/test-audit-asked
tests_unit_server_test_audit_asked_SOURCES = tests/unit/server/test-audit-asked.c
tests_unit_server_test_audit_asked_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_audit_queue_SOURCES = tests/unit/server/test-audit-queue.c
tests_unit_server_test_audit_queue_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_audit_verdict_SOURCES = tests/unit/server/test-audit-verdict.c tests/lib/tiny-model.h
tests_unit_server_test_audit_verdict_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_unit_server_test_evidence_SOURCES = tests/unit/server/test-evidence.c
tests_unit_server_test_evidence_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/server/test-trust
tests_unit_server_test_trust_SOURCES = tests/unit/server/test-trust.c
tests_unit_server_test_trust_LDADD = server/libskep-server.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
