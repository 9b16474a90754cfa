// Config: what a config file says, a struct a section, in three parts: what the run records, what a
// peer has, and what a coordinator has. And the run's record, which is made of the first part.
//
// config_table.h says what every key is. Plain data, and functions that read no more than the files
// that they name; any thread.
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

namespace atolld {

inline constexpr char kDialsOutOnly[] = "none";  // peer.advertise: nobody can dial it, behind NAT
inline constexpr char kAggregatorRoleName[] = "aggregator";  // peer.role: has no worker

// Kinds of models. A stub's worker only takes time; an external one is known to the user's worker
// alone; a TorchScript file's forward(batch...) gives the loss; Hugging Face's are folders.
inline constexpr char kStubKind[] = "stub";
inline constexpr char kExternalKind[] = "external";
inline constexpr char kTorchScriptKind[] = "torchscript";
inline constexpr char kHuggingFaceKind[] = "huggingface";

// What the run records.
struct ConfigModel {  // [model]
  std::string kind = "gpt";
  uint32_t layers = 4;
  uint32_t heads = 4;
  uint32_t width = 128;
  uint32_t context = 64;
  double dropout = 0;
  uint64_t parameters = 0;  // of kind "stub" alone, which needs it
  std::string file;         // of kind "torchscript" alone
  std::string path;         // of kind "huggingface" alone: a folder
  std::string file_digest;  // of file, or of the folder's config.json: SHA-256, 32 bytes; no key
  uint32_t vocabulary = 0;  // 0: the data's
  // The next five belong to "gpt2" and "llama"; 0 stands for what is usual.
  uint32_t hidden = 0;    // 4 widths; llama: 8/3 of one, up to a multiple of 256
  uint32_t kv_heads = 0;  // llama: as many as heads
  bool tied = true;
  double rope_theta = 0;    // llama: 10000
  double norm_epsilon = 0;  // 1e-5
  DecoderShape decoder;     // of "llama" alone
  std::string initial;      // a file of `atoll import`: state 0 is not drawn
  // Adapters beside a frozen base.
  uint32_t lora_rank = 0;
  double lora_alpha = 0;     // 0: 2 lora_rank
  std::string lora_targets;  // "q_proj,v_proj"; empty: the kind's usual
  std::string base;          // a file of `atoll import`, on each peer's machine
  std::string base_digest;   // its SHA-256 in hex, as `atoll import` prints it
  uint32_t base_bits = 0;    // of "huggingface": 4 quantises the base; 0: as it is
  std::string local;         // "lm_head.*": tensors that stay with each peer
};

struct InnerConfig {  // [inner]
  std::string optimizer = "adamw";
  uint32_t steps = 25;
  std::string pace = "fixed";  // or "time": as many steps as fit `time`; "auto": by speed
  absl::Duration time = absl::ZeroDuration();
  uint32_t batch = 12;
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  uint64_t warmup_steps = 100;
  uint64_t decay_steps = 0;  // where the schedule ends; 0: rounds x steps
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  absl::Duration step_time = absl::ZeroDuration();  // a stub's: what one step takes
  std::string schedule = "cosine";                  // or "wsd", "constant"
  uint64_t cooldown_steps = 0;                      // of wsd; 0: a fifth of the decay_steps
  std::string precision = "fp32";                   // of the matrix products: "bf16" too
  uint32_t accumulation = 1;
  bool checkpointing = false;
  double muon_momentum = 0.95;
  double proximal = 0;            // mu of FedProx
  bool control_variates = false;  // SCAFFOLD
  uint32_t epochs = 0;            // passes over a peer's own data a round; 0: `steps`
};

struct RunConfig {
  struct Run {            // [run]
    std::string id = "";  // empty: made from the file's name and the time of the first start
    uint64_t rounds = 40;
    uint64_t seed = 1337;
    uint32_t peers = 1;   // to wait for before the first round; `atoll local` starts as many
    std::string branch;   // a file of `atoll run branch`: version 0 is a state of another run
    uint32_t quorum = 0;  // fewest peers that may commit; 0: more than half of `peers`
  } run;
  ConfigModel model;
  DataConfig data;  // [data]
  using Inner = InnerConfig;
  Inner inner;
  struct Outer {  // [outer]
    std::string rule = "nesterov";
    double learning_rate = 0.7;  // where the file does not say: by the rule and the peers
    double momentum = 0.9;       // with rule "average", where the file does not say: 0
    double beta2 = 0.99;         // of "adam", "yogi" and "cgad"
    double adaptivity = 1e-3;    // of the adaptive rules: tau
    uint32_t buffer = 1;         // N of "delayed_nesterov", where the file does not say: peers
  } outer;
  struct Exchange {               // [exchange]
    std::string codec = "int8";   // of updates; "+zstd" may follow
    std::string upper_codec;      // of means, as codec; empty: codec
    std::string slow_codec;       // of updates over slow lines; empty: codec
    bool error_feedback = false;  // with topk and int2, where the file does not say: true
    uint32_t chunk_elements = 65536;
    std::string plan = "auto";         // "flat"; "regions": each averages first; "auto": the faster
    double feedback_decay = 1;         // with topk, where the file does not say: 0.95
    std::string aggregation = "mean";  // a rule of optimizer/
    uint32_t faulty = 0;               // liars that the rule is to bear
    double clip = 1;                   // longer updates are scaled down to so many medians; 0: none
    double audit_share = 0.0625;       // of the chunks, recomputed by others before a commit
    std::string rounding = "nearest";  // or "stochastic"
  } exchange;
  struct Evaluation {  // [evaluation]
    uint64_t tokens = 65536;
    uint32_t every_rounds = 5;
  } evaluation;
  ModeConfig mode;              // [mode]
  FederationConfig federation;  // [federation]
  PrivacyConfig privacy;        // [privacy]
};

// What a peer has.

struct PeerConfig {
  struct Peer {  // [peer]
    std::string id = "";
    std::string role = "peer";  // or kAggregatorRoleName
    std::string listen = "127.0.0.1:0";
    std::string advertise = "";  // what others dial; empty: as listened on; or kDialsOutOnly
    std::string dir = "";
    uint32_t snapshot_every = 20;  // rounds
    uint32_t keep_snapshots = 2;   // the log reaches back to the oldest kept
    uint64_t keep_bytes = 0;  // of log and snapshots together, two snapshots at least; 0: no limit
    uint64_t donate_bytes_per_second = uint64_t{64} << 20;  // to joiners; in exchanges an eighth
    uint64_t up_rate = 0, down_rate = 0;  // of its line, bytes a second at most; 0: not told
    std::string region = "";  // peers of one region are close to each other; empty: one of its own
  } peer;
  MachineConfig machine;            // [machine]
  PartiesConfig parties;            // [parties]
  AvailabilityConfig availability;  // [availability]
  struct Worker {                   // [worker]
    std::string program = "";       // empty: the one for the run's model, beside this binary
    uint32_t threads = 1;
    std::string device = "auto";  // "cpu", "cuda:1", "cuda:0,cuda:1"; auto: a GPU if there is one
    double slower = 1;            // a step lasts so many times what it takes
  } worker;
};

// What a coordinator has.

struct CoordinatorConfig {
  MembershipConfig membership;  // [membership]
  struct StopWhen {             // [stop_when], where 0 stands for never
    double loss_below = 0;
    uint32_t no_improvement = 0;  // evaluations in a row without a lower loss
    uint64_t tokens = 0;
    absl::Duration time = absl::ZeroDuration();  // of training
  } stop_when;
  struct Coordinator : StoreConfig {         // [coordinator]
    std::string address = "127.0.0.1:7070";  // peers read it too
    std::string listen = "";                 // empty: address
    std::string dir = "";                    // where the store lives
    bool exit_when_sealed = false;
    std::string aggregator = "auto";      // "always", "never"; auto: where the run waits for one
    std::string aggregator_address = "";  // what peers dial; empty: address's host, the next port
  } coordinator;
};

// What any one other process may ask of this one. None of them can make it hold or do more than
// that, whatever it sends; who stays below them notices nothing.
struct ConfigLimits {                 // [limits]
  uint32_t calls_per_peer = 256;      // peer: open at a time, of one other peer
  uint32_t sessions_per_minute = 60;  // coordinator: begun by one peer
  uint32_t session_messages = 500;    // coordinator: read a second, of one peer's Session
  uint32_t enrolments = 50;           // coordinator: signed a second, of all that join or renew
};

// All three parts, and what every process has. A file may hold any of it.
struct Config : RunConfig, PeerConfig, CoordinatorConfig {
  struct Network {           // [network]
    bool plaintext = false;  // no certificates, on loopback alone; said knowingly
    uint64_t lanes = 1;      // connections to one peer, 1 to 16
  } network;
  ConfigLimits limits;
  struct Log {  // [log]
    std::string level = "info";
    std::string format = "text";  // or "json": an object a line
  } log;
  struct Http {                    // [http]
    std::string listen = "auto";   // "off"; auto: a coordinator's on loopback, a peer's is off
    std::string certificate, key;  // files in PEM; none: loopback alone, without TLS
    std::string token_file;        // what a reader must show, on other addresses than loopback
  } http;
};

// What a file is read for: decides which sections and keys must be there.
enum class ConfigUse { kAny, kLocal, kCoordinator, kPeer };

// What the coordinator records. The run id must be set. decay_steps 0 becomes rounds x steps, or
// one step past the warm-up if that is later.
v1::RunSpec MakeRunSpec(const RunConfig& config);

// [model] of it, with everything that is usual spelt out.
v1::ModelSpec MakeModelSpec(const ConfigModel& model);

DecoderShape DecoderOf(const ConfigModel& model);  // what of it is beside Llama's sizes

// Of [membership] outsized. 0 with masks, where nobody sees lengths, and where honest updates
// differ widely in them: with error feedback, which gives back what was held back, and with topk.
double DefaultOutsized(const Config& config);

// The program that trains a model of this kind: a file's name.
std::string WorkerProgramOf(const std::string& model_kind);

bool IsForeign(absl::string_view model_kind);  // "torchscript", "external", "huggingface"

// False: a model of this kind has no such key in [model], so it is neither taken nor written.
bool TakesModelKey(absl::string_view kind, absl::string_view key);

// Half a sentence about such a kind: "which is whatever its file holds".
absl::string_view WhyNoModelKey(absl::string_view kind, absl::string_view key);

// 32 bytes: the SHA-256 of a whole file. INVALID_ARGUMENT: it cannot be read.
absl::StatusOr<std::string> DigestOfFile(const std::string& path);

std::vector<std::string> SplitNames(const std::string& names);  // "a, b" as {"a", "b"}

// The modules of a kind that adapters may stand beside, as lora_targets names them.
std::vector<std::string> AdapterTargets(const std::string& kind);

uint64_t TrainedParameters(const v1::ModelSpec& model);  // and exchanged; the model is a sound one

}  // namespace atolld
