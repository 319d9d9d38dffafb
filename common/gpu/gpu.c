#include "common/gpu/gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/gpu/plugin.h"
#include "common/sys/process.h"

#define DRIVER "libcuda.so.1"
#define PLUGIN "skep-cuda.so"

static const char *const device_names[] = {"cpu", "cuda", "auto"};

int skep_device_parse(const char *text, enum skep_device *ret_device, struct skep_error *err)
{
    for (size_t i = 0; i < sizeof device_names / sizeof device_names[0]; i++) {
        if (strcmp(text, device_names[i]) == 0) {
            *ret_device = (enum skep_device)i;
            return 0;
        }
    }
    return skep_error_set(err, SKEP_ERR_ARGUMENT, "device is \"%.40s\"; allowed: cpu, cuda, auto",
                          text);
}

const char *skep_device_name(enum skep_device device)
{
    return device_names[device];
}

/* A function of a loaded library. ISO C has no conversion from object to function pointers; POSIX asks for this one. */
static void function_of(void *library, const char *name, void *ret_function)
{
    void *found = dlsym(library, name);
    memcpy(ret_function, &found, sizeof found);
}

/* Asks the driver, with its own library alone, whether a device is there. The driver stays loaded: the plug-in is its next user. */
static int find_device(struct skep_error *err)
{
    int (*init)(unsigned) = NULL;
    int (*count_of)(int *) = NULL;
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND,
                              "there is no NVIDIA driver on this machine (%s)", dlerror());
    }
    function_of(driver, "cuInit", &init);
    function_of(driver, "cuDeviceGetCount", &count_of);
    if (init == NULL || count_of == NULL) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND,
                              "%s has no cuInit or no cuDeviceGetCount: it is not NVIDIA's driver",
                              DRIVER);
    }
    int code = init(0);
    if (code != 0) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND,
                              "the NVIDIA driver does not start (cuInit answers %d%s)", code,
                              code == 100 ? ": no device" : "; nvidia-smi may say more");
    }
    int count = 0;
    code = count_of(&count);
    if (code != 0 || count < 1) {
        return skep_error_set(
            err, SKEP_ERR_NOT_FOUND,
            "the NVIDIA driver shows no device (cuDeviceGetCount answers %d, %d devices)", code,
            count);
    }
    return 0;
}

static int open_plugin(const struct skep_ops **ret_ops, struct skep_error *err)
{
    const struct skep_gpu_host host = {SKEP_GPU_INTERFACE, sizeof(struct skep_ops),
                                       skep_ops_stopped};
    skep_gpu_entry entry = NULL;
    char *path = skep_process_find(PLUGIN);
    int rc = 0;
    /* A name without a folder is one that was not found; dlopen must not look for it where libraries lie. */
    if (strchr(path, '/') == NULL) {
        rc = skep_error_set(err, SKEP_ERR_NOT_FOUND,
                            "there is an NVIDIA device, but this installation of Skep has no %s: "
                            "configure it where nvcc is",
                            PLUGIN);
        goto out;
    }
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        rc = skep_error_set(err, SKEP_ERR_NOT_FOUND,
                            "%s does not load; it needs CUDA's cuBLAS (%s)", PLUGIN, dlerror());
        goto out;
    }
    function_of(plugin, SKEP_GPU_ENTRY, &entry);
    if (entry == NULL) {
        rc = skep_error_set(err, SKEP_ERR_NOT_FOUND, "%s has no %s: it is not Skep's", path,
                            SKEP_GPU_ENTRY);
        goto out;
    }
    rc = entry(&host, ret_ops, err);
out:
    free(path);
    return rc;
}

int skep_gpu_open(const struct skep_ops **ret_ops, struct skep_error *err)
{
    int rc = find_device(err);
    return rc == 0 ? open_plugin(ret_ops, err) : rc;
}

int skep_device_open(enum skep_device device, const struct skep_ops **ret_ops,
                     struct skep_error *err)
{
    struct skep_error why = {0};
    if (device != SKEP_DEVICE_CPU && skep_gpu_open(ret_ops, &why) == 0) {
        return 0;
    }
    if (device == SKEP_DEVICE_CUDA) {
        return skep_error_set(err, why.code, "device cuda was asked for: %s", why.text);
    }
    if (device == SKEP_DEVICE_AUTO) {
        skep_log(SKEP_LOG_INFO, "computing on the CPU: %s", why.text);
    }
    *ret_ops = skep_ops_cpu();
    return 0;
}
