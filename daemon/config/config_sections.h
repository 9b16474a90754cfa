// Config: the contents of a config file, with a struct for each section. Its parts are the run's
// settings, a peer's, a coordinator's, and those of every process.
//
// config_table.h says what every key means. Plain data. The functions read only the files that
// their arguments name, and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/decoder.h"
#include "daemon/config/data_config.h"
#include "daemon/config/federation_config.h"
#include "daemon/config/machine_config.h"
#include "daemon/config/membership_config.h"
#include "daemon/config/mode_config.h"
#include "daemon/config/store_config.h"
#include "daemon/config/tracking_config.h"

namespace atolld {

inline constexpr char kDialsOutOnly[] = "none";  // peer.advertise if no peer can dial it
inline constexpr char kAggregatorRoleName[] = "aggregator";  // peer.role of a peer without a worker

// Kinds of models. The worker of a stub only waits. An external model is known only to the user's
// own worker. The forward(batch...) of a TorchScript file returns the loss.
inline constexpr char kStubKind[] = "stub";
inline constexpr char kExternalKind[] = "external";
inline constexpr char kTorchScriptKind[] = "torchscript";
inline constexpr char kHuggingFaceKind[] = "huggingface";

// The part of a config that the run records.
struct ConfigModel {  // [model]
  std::string kind = "gpt";
  uint32_t layers = 4;
  uint32_t heads = 4;
  uint32_t width = 128;
  uint32_t context = 64;
  double dropout = 0;
  uint64_t parameters = 0;  // only for kind "stub", which requires it
  std::string file;         // only for kind "torchscript"
  std::string path;         // only for kind "huggingface": a folder
  std::string file_digest;  // SHA-256 (32 bytes) of `file`, or of config.json in `path`; not a key
  uint32_t vocabulary = 0;  // 0 means the data's
  // The next five belong to "gpt2" and "llama". 0 means the default that is given here.
  uint32_t hidden = 0;    // 4 widths; llama: 8/3 widths, rounded up to a multiple of 256
  uint32_t kv_heads = 0;  // only for "llama": as many as `heads`
  bool tied = true;
  double rope_theta = 0;    // only for "llama": 10000
  double norm_epsilon = 0;  // 1e-5
  DecoderShape decoder;     // only for "llama"
  std::string initial;      // a file of `atoll import`, used as state 0; if empty, it is drawn
  // The keys of adapters, which are trained beside a frozen base.
  uint32_t lora_rank = 0, lora_slice = 0;  // slices of so many ranks; 0: adapters are whole
  double lora_alpha = 0;                   // 0 means 2 lora_rank
  std::string lora_targets;                // "q_proj,v_proj"; if empty, the kind's default
  std::string base;                        // a file of `atoll import`, on each peer's machine
  std::string base_digest;                 // SHA-256 of `base` in hex, as `atoll import` prints it
  uint32_t base_bits = 0;  // only for "huggingface": 4 quantises the base; 0 does not
  std::string local;       // "lm_head.*": tensors that are not exchanged
};

struct InnerConfig {  // [inner]
  std::string optimizer = "adamw";
  uint32_t steps = 25;
  std::string pace = "fixed";  // or "time": as many steps as fit in `time`; "auto": by speed
  absl::Duration time = absl::ZeroDuration();
  uint32_t batch = 12;
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  uint64_t warmup_steps = 100;
  uint64_t decay_steps = 0;  // the step at which the schedule ends; 0 means rounds x steps
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  absl::Duration step_time = absl::ZeroDuration();  // only for a stub: the duration of a step
  std::string schedule = "cosine";                  // or "wsd", "constant"
  uint64_t cooldown_steps = 0;                      // only for wsd; 0 means decay_steps / 5
  std::string precision = "fp32";                   // or "bf16": that of matrix products
  uint32_t accumulation = 1;
  bool checkpointing = false;
  double muon_momentum = 0.95;
  double proximal = 0;            // mu of FedProx
  bool control_variates = false;  // SCAFFOLD
  uint32_t epochs = 0;  // passes over a peer's data in a round; 0 means that `steps` counts
};

struct RunConfig {
  struct Run {            // [run]
    std::string id = "";  // if empty, made from the file's name and the time of the first start
    uint64_t rounds = 40;
    uint64_t seed = 1337;
    uint32_t peers = 1;   // awaited before the first round; `atoll local` starts this many
    std::string branch;   // a file of `atoll run branch`, whose state becomes version 0
    uint32_t quorum = 0;  // fewest peers that may commit; 0 means more than half of `peers`
  } run;
  ConfigModel model;
  DataConfig data;  // [data]
  using Inner = InnerConfig;
  Inner inner;
  struct Outer {  // [outer]
    std::string rule = "nesterov";
    double learning_rate = 0.7;  // default: from the rule and the peers
    double momentum = 0.9;       // default: 0 with rule "average"
    double beta2 = 0.99;         // only for "adam", "yogi" and "cgad"
    double adaptivity = 1e-3;    // only for the adaptive rules: tau
    uint32_t buffer = 1;         // N of "delayed_nesterov"; default: the peers
  } outer;
  struct Exchange {               // [exchange]
    std::string codec = "int8";   // for updates; may end in "+zstd"
    std::string upper_codec;      // for means; `codec` if empty
    std::string slow_codec;       // for updates over slow lines; `codec` if empty
    bool error_feedback = false;  // default: true with topk and int2
    uint32_t chunk_elements = 65536;
    std::string plan = "auto";  // the faster of "flat" and "regions", in which each averages first
    double feedback_decay = 1;  // default: 0.95 with topk
    std::string aggregation = "mean";  // a rule of optimizer/
    uint32_t faulty = 0;               // the number of lying peers that the rule must withstand
    double clip = 1;  // longer updates are scaled down to this many medians; 0 means no clip
    double audit_share = 0.0625;       // share of the chunks that are recomputed before a commit
    std::string rounding = "nearest";  // or "stochastic"
  } exchange;
  struct Evaluation {  // [evaluation]
    uint64_t tokens = 65536;
    uint32_t every_rounds = 5;
  } evaluation;
  ModeConfig mode;              // [mode]
  ExpertsConfig experts;        // [experts]
  FederationConfig federation;  // [federation]
  PrivacyConfig privacy;        // [privacy]
};

// The part that a peer has.
struct PeerConfig {
  struct Peer {  // [peer]
    std::string id = "";
    std::string role = "peer";  // or kAggregatorRoleName
    std::string listen = "127.0.0.1:0";
    std::string advertise = "";  // the address others dial; `listen` if empty; or kDialsOutOnly
    std::string dir = "";
    uint32_t snapshot_every = 20;  // the number of rounds between snapshots
    uint32_t keep_snapshots = 2;   // the log is kept back to the oldest of them
    uint64_t keep_bytes = 0;       // limits log and snapshots, but two are kept; 0 means no limit
    uint64_t donate_bytes_per_second = uint64_t{64} << 20;  // to joiners; 1/8 during exchanges
    uint64_t up_rate = 0, down_rate = 0;  // bytes a second that its line carries; 0: unknown
    std::string values_in = "memory";  // or "disk": files in dir, of which what fits is in memory
    std::string region = "";  // the same for peers near each other; if empty, the peer is alone
  } peer;
  MachineConfig machine;            // [machine]
  PartiesConfig parties;            // [parties]
  AvailabilityConfig availability;  // [availability]
  struct Worker {                   // [worker]
    std::string program = "";       // if empty, the program for the run's model beside this binary
    uint32_t threads = 1;
    std::string device = "auto";    // or "cpu", "mps", "cuda:1", "cuda:0,cuda:1"; auto: any GPU
    std::string sharding = "none";  // or "full": the devices hold one model together
    double slower = 1;              // a step lasts this many times as long
    uint64_t memory = 0;            // the most bytes that training may need; 0 means no limit
    uint32_t lora_rank = 0;         // the first ranks of the adapters, which it trains; 0: all
  } worker;
};

// The part that a coordinator has.
struct CoordinatorConfig {
  MembershipConfig membership;  // [membership]
  struct StopWhen {             // [stop_when], in which 0 means never
    double loss_below = 0;
    uint32_t no_improvement = 0;  // the number of evaluations in a row without a lower loss
    uint64_t tokens = 0;
    absl::Duration time = absl::ZeroDuration();  // the time of training
  } stop_when;
  struct Coordinator : StoreConfig {         // [coordinator]
    std::string address = "127.0.0.1:7070";  // peers also use it
    std::string listen = "";                 // `address` if empty
    std::string dir = "";                    // the store's folder
    bool exit_when_sealed = false;
    std::string aggregator = "auto";  // "auto" starts one if the run waits; or "always", "never"
    std::string aggregator_address = "";  // peers dial it; if empty, `address` with the next port
  } coordinator;
  TrackingConfig tracking;  // [tracking]
};

// The most that another process can make this one hold or do; one within them is not affected.
struct ConfigLimits {                 // [limits]
  uint32_t calls_per_peer = 256;      // the most open calls that a peer takes from another
  uint32_t sessions_per_minute = 60;  // the most that one peer may begin with a coordinator
  uint32_t session_messages = 500;    // the most that a coordinator reads from a peer in a second
  uint32_t enrolments = 50;           // the most that a coordinator signs in a second
};

// All parts, with the settings of every process. A file may hold any of them.
struct Config : RunConfig, PeerConfig, CoordinatorConfig {
  struct Network {           // [network]
    bool plaintext = false;  // no certificates; only allowed on loopback, and never the default
    uint64_t lanes = 1;      // the number of connections to one peer, 1 to 16
  } network;
  ConfigLimits limits;
  struct Log {  // [log]
    std::string level = "info";
    std::string format = "text";  // or "json": one object on each line
  } log;
  struct Http {                    // [http]
    std::string listen = "auto";   // or "off"; with "auto", only coordinators listen, on loopback
    std::string certificate, key;  // PEM files; if empty, only loopback, without TLS
    std::string token_file;        // holds the token that readers show beyond loopback
  } http;
};

// The purpose for which a file is read. It decides which sections and keys are required.
enum class ConfigUse { kAny, kLocal, kCoordinator, kPeer };

// Returns [model] with the default in place of each 0 or empty value.
v1::ModelSpec MakeModelSpec(const ConfigModel& model);

DecoderShape DecoderOf(const ConfigModel& model);  // `decoder` with defaults spelt out

// Returns the default of [membership] outsized. It is 0 with masks, which hide lengths, and with
// error feedback, topk or slices of adapters, where those of honest updates differ widely.
double DefaultOutsized(const Config& config);

// Returns the folder for files of parameters and buffers; empty if they lie in memory.
std::string ValueFolderOf(const PeerConfig::Peer& peer);

// Returns the file name of the program that trains a model of this kind.
std::string WorkerProgramOf(const std::string& model_kind);

bool IsForeign(absl::string_view model_kind);  // "torchscript", "external", "huggingface"

// Returns false if models of this kind have no such key; it is then neither accepted nor printed.
bool TakesModelKey(absl::string_view kind, absl::string_view key);

// Returns why the kind does not take a key, as a clause: "which is whatever its file holds".
absl::string_view WhyNoModelKey(absl::string_view kind, absl::string_view key);

// Returns the SHA-256 of a whole file, 32 bytes; fails with INVALID_ARGUMENT if it cannot be read.
absl::StatusOr<std::string> DigestOfFile(const std::string& path);
std::vector<std::string> SplitNames(const std::string& names);  // splits "a, b" into {"a", "b"}

// Returns the modules of a model that may have adapters, named as in lora_targets.
std::vector<std::string> AdapterTargets(const ConfigModel& model);
uint64_t TrainedParameters(const v1::ModelSpec& model);  // the model must be valid
// Returns a block's matrices, also of a base, named as in lora_targets; the model must be valid.
std::vector<BlockTensor> MatricesOfBlock(const v1::ModelSpec& model, uint32_t layer);

}  // namespace atolld
