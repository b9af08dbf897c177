/*
 * A driver library for tests: libnvidia-ml.so.1 without a GPU, driven by a text file.
 *
 * Build. nvml.h is the one of the go-nvml module, so that structs have the size the sensor was built with:
 *
 *   NVML=$(go list -m -f '{{.Dir}}' github.com/NVIDIA/go-nvml)/pkg/nvml
 *   gcc -shared -fPIC -I "$NVML" -o DIR/libnvidia-ml.so.1 stub.c
 *
 *   -DNO_INIT            neither nvmlInit nor nvmlInit_v2: the sensor dies at its first call
 *   -DNO_V3              process lists by their _v2 names only
 *   -DNO_EVENT_REASONS   only the old name nvmlDeviceGetCurrentClocksThrottleReasons
 *   -DNO_V2_STRUCTS      neither nvmlDeviceGetMemoryInfo_v2 nor nvmlDeviceGetTemperatureV
 *
 * Use. Start the sensor (or tailgate) with
 *
 *   LD_LIBRARY_PATH=DIR               this library is found before any other
 *   NVIDIA_STUB_SCENARIO=FILE         the scenario, read again at each call; it may be absent, and may change at any time
 *   NVIDIA_STUB_CLOCK=FILE | real     FILE holds milliseconds and is read at each call; real (the default) is the time
 *                                     since the library was first called
 *
 * STUB_SCENARIO and STUB_CLOCK mean the same. The NVIDIA_ names are on the list of variables that tailgate hands to sensors,
 * the short ones are for a sensor that a test starts itself.
 *
 * Scenario. One row a line, `#` begins a comment line:
 *
 *   t_ms gpu key value
 *
 * The row with the greatest t_ms that is not in the future holds (the last one, of equals). gpu is an index from 0, or *.
 * Questions to the system have gpu *. key is the C name without _v2 or _v3, with a dot and a word where a call answers
 * several: defaults.h lists all keys with what holds when no row does. value is
 *
 *   1980, 0x48, -3       a number
 *   Some Name            a text, to the end of the line
 *   nvml:15              the call fails with this nvmlReturn_t (nvml:0 succeeds)
 *   hang                 the call never returns
 *   4711:1073741824,12:5 a process list, pid:bytes; none is the empty one; bytes -1 is "not available"
 *
 * A hardware slowdown in one round of a session: let the server's start command write the row in its third start,
 *
 *   echo '0 * nvmlDeviceGetCurrentClocksEventReasons 0x48' > "$FILE.new" && mv "$FILE.new" "$FILE"
 *
 * and write an empty file in the fourth. Rename, so that no call reads half a file.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include "nvml.h"

/* The sizes that Go code compiled against the same header relies on; a new header that changes them must be looked at. */
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(nvmlMemory_t) == 24, "nvmlMemory_t");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(nvmlTemperature_t) == 12, "nvmlTemperature_t");
_Static_assert(sizeof(nvmlUtilization_t) == 8, "nvmlUtilization_t");
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "nvmlPciInfo_t");

#define SYSTEM (-1)
#define TEXT 256

static const struct { const char *key, *value; } defaults[] = {
#define ROW(key, value) {key, value},
#include "defaults.h"
#undef ROW
};

static const char *setting(const char *ours, const char *shorter) {
    const char *value = getenv(ours);
    return value ? value : getenv(shorter);
}

static long long now_ms(void) {
    static long long start;
    const char *clock = setting("NVIDIA_STUB_CLOCK", "STUB_CLOCK");
    if (clock && strcmp(clock, "real") != 0) {
        long long ms = 0;
        FILE *f = fopen(clock, "r");
        if (f) {
            if (fscanf(f, "%lld", &ms) != 1) ms = 0;
            fclose(f);
        }
        return ms;
    }
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    long long ms = ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
    if (!start) start = ms;
    return ms - start;
}

/* answer finds the text that holds for a key now; a hang ends here. */
static void answer(int gpu, const char *key, char out[TEXT]) {
    out[0] = 0;
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(defaults[i].key, key) == 0) snprintf(out, TEXT, "%s", defaults[i].value);

    const char *path = setting("NVIDIA_STUB_SCENARIO", "STUB_SCENARIO");
    FILE *f = path ? fopen(path, "r") : NULL;
    long long best = -1, now = now_ms();
    char line[1024];
    while (f && fgets(line, sizeof line, f)) {
        long long t;
        char who[16], what[128];
        int rest = 0;
        if (sscanf(line, "%lld %15s %127s %n", &t, who, what, &rest) != 3 || rest == 0) continue;
        if (t > now || t < best || strcmp(what, key) != 0) continue;
        if (strcmp(who, "*") != 0 && atoi(who) != gpu) continue;
        line[strcspn(line, "\r\n")] = 0;
        best = t;
        snprintf(out, TEXT, "%.250s", line + rest);
    }
    if (f) fclose(f);
    if (strcmp(out, "hang") == 0)
        for (;;) pause();
}

static nvmlReturn_t code(const char *text) {
    return strncmp(text, "nvml:", 5) == 0 ? (nvmlReturn_t)atoi(text + 5) : NVML_SUCCESS;
}

static nvmlReturn_t number(int gpu, const char *key, long long *out) {
    char text[TEXT];
    answer(gpu, key, text);
    *out = strtoll(text, NULL, 0);
    return code(text);
}

static nvmlReturn_t string(int gpu, const char *key, char *out, unsigned int length) {
    char text[TEXT];
    answer(gpu, key, text);
    if (code(text) != NVML_SUCCESS) return code(text);
    if (strlen(text) + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

/* A handle is the index plus one, so that none is NULL. The module's header wraps the driver's pointer in a struct. */
static int index_of(nvmlDevice_t device) { return (int)(uintptr_t)device.handle - 1; }

/* ANSWER defines a device call whose one number goes to *out. */
#define ANSWER(name, key, type)                              \
    nvmlReturn_t name(nvmlDevice_t device, type *out) {      \
        long long n;                                         \
        nvmlReturn_t ret = number(index_of(device), key, &n); \
        if (ret == NVML_SUCCESS) *out = (type)n;             \
        return ret;                                          \
    }

#ifndef NO_INIT
nvmlReturn_t nvmlInit_v2(void) { long long n; return number(SYSTEM, "nvmlInit", &n); }
#endif
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t result) { (void)result; return "stub"; }

nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int n) { return string(SYSTEM, "nvmlSystemGetDriverVersion", v, n); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned int n) { return string(SYSTEM, "nvmlSystemGetNVMLVersion", v, n); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) {
    long long n;
    nvmlReturn_t ret = number(SYSTEM, "nvmlSystemGetCudaDriverVersion", &n);
    *out = (int)n;
    return ret;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    long long n;
    nvmlReturn_t ret = number(SYSTEM, "nvmlDeviceGetCount", &n);
    *count = (unsigned int)n;
    return ret;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    long long n;
    device->handle = (void *)(uintptr_t)(index + 1);
    return number((int)index, "nvmlDeviceGetHandleByIndex", &n);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int length) {
    snprintf(out, length, "GPU-00000000-0000-4000-8000-%012d", index_of(device));
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int length) {
    return string(index_of(device), "nvmlDeviceGetName", out, length);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    memset(pci, 0, sizeof *pci);
    return string(index_of(device), "nvmlDeviceGetPciInfo", pci->busId, sizeof pci->busId);
}

ANSWER(nvmlDeviceGetPersistenceMode, "nvmlDeviceGetPersistenceMode", nvmlEnableState_t)
ANSWER(nvmlDeviceGetComputeMode, "nvmlDeviceGetComputeMode", nvmlComputeMode_t)
ANSWER(nvmlDeviceGetPowerUsage, "nvmlDeviceGetPowerUsage", unsigned int)
ANSWER(nvmlDeviceGetEnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit", unsigned int)
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, "nvmlDeviceGetPowerManagementDefaultLimit", unsigned int)
ANSWER(nvmlDeviceGetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption", unsigned long long)
ANSWER(nvmlDeviceGetPerformanceState, "nvmlDeviceGetPerformanceState", nvmlPstates_t)
ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksEventReasons", unsigned long long)
#ifndef NO_EVENT_REASONS
ANSWER(nvmlDeviceGetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons", unsigned long long)
#endif

static nvmlReturn_t mode(nvmlDevice_t device, const char *key, unsigned int *current, unsigned int *pending) {
    long long n;
    nvmlReturn_t ret = number(index_of(device), key, &n);
    *current = *pending = (unsigned int)n;
    return ret;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    return mode(device, "nvmlDeviceGetMigMode", current, pending);
}
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending) {
    return mode(device, "nvmlDeviceGetEccMode", (unsigned int *)current, (unsigned int *)pending);
}

static nvmlReturn_t clocks(nvmlDevice_t device, nvmlClockType_t type, const char *sm, const char *mem, unsigned int *out) {
    long long n;
    if (type != NVML_CLOCK_SM && type != NVML_CLOCK_MEM) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t ret = number(index_of(device), type == NVML_CLOCK_SM ? sm : mem, &n);
    *out = (unsigned int)n;
    return ret;
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) {
    return clocks(device, type, "nvmlDeviceGetClockInfo.sm", "nvmlDeviceGetClockInfo.mem", clock);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) {
    return clocks(device, type, "nvmlDeviceGetMaxClockInfo.sm", "nvmlDeviceGetMaxClockInfo.mem", clock);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *temp) {
    long long n;
    if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t ret = number(index_of(device), "nvmlDeviceGetTemperature", &n);
    *temp = (unsigned int)n;
    return ret;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out) {
    long long gpu, memory;
    nvmlReturn_t ret = number(index_of(device), "nvmlDeviceGetUtilizationRates.gpu", &gpu);
    if (ret == NVML_SUCCESS) ret = number(index_of(device), "nvmlDeviceGetUtilizationRates.memory", &memory);
    if (ret == NVML_SUCCESS) { out->gpu = (unsigned int)gpu; out->memory = (unsigned int)memory; }
    return ret;
}

static nvmlReturn_t memory(nvmlDevice_t device, long long *total, long long *used) {
    nvmlReturn_t ret = number(index_of(device), "nvmlDeviceGetMemoryInfo.total", total);
    return ret != NVML_SUCCESS ? ret : number(index_of(device), "nvmlDeviceGetMemoryInfo.used", used);
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out) {
    long long total = 0, used = 0;
    nvmlReturn_t ret = memory(device, &total, &used);
    if (ret == NVML_SUCCESS) { out->total = total; out->used = used; out->free = total - used; }
    return ret;
}
#ifndef NO_V2_STRUCTS
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out) {
    long long total = 0, used = 0;
    if (out->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t ret = memory(device, &total, &used);
    if (ret == NVML_SUCCESS) { out->total = total; out->used = used; out->free = total - used; out->reserved = 0; }
    return ret;
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *out) {
    long long n;
    if (out->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (out->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t ret = number(index_of(device), "nvmlDeviceGetTemperature", &n);
    out->temperature = (int)n;
    return ret;
}
#endif

static nvmlReturn_t processes(nvmlDevice_t device, const char *key, unsigned int *count, nvmlProcessInfo_t *infos) {
    char text[TEXT], *next = text;
    answer(index_of(device), key, text);
    if (code(text) != NVML_SUCCESS) return code(text);
    unsigned int n = 0;
    for (; strcmp(text, "none") != 0 && *next; n++) {
        unsigned int pid = (unsigned int)strtoul(next, &next, 10);
        long long bytes = *next == ':' ? strtoll(next + 1, &next, 10) : 0;
        if (*next == ',') next++;
        if (n >= *count) continue;
        infos[n] = (nvmlProcessInfo_t){
            .pid = pid, .usedGpuMemory = (unsigned long long)bytes, .gpuInstanceId = ~0u, .computeInstanceId = ~0u,
        };
    }
    nvmlReturn_t ret = n > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    *count = n;
    return ret;
}

#ifdef NO_V3
#define LIST(name) name##_v2
#else
#define LIST(name) name##_v3
#endif
nvmlReturn_t LIST(nvmlDeviceGetComputeRunningProcesses)(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    return processes(device, "nvmlDeviceGetComputeRunningProcesses", count, infos);
}
nvmlReturn_t LIST(nvmlDeviceGetMPSComputeRunningProcesses)(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    return processes(device, "nvmlDeviceGetMPSComputeRunningProcesses", count, infos);
}
