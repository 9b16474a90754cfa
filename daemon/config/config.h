// The one configuration file of every process: TOML, a section an idea.
//
// A file may hold any sections; each process reads what it needs and checks all. Every error is one
// line: "FILE:LINE: what is wrong; what would be right", with the nearest name for a misspelt one.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/run.pb.h"
#include "daemon/config/config_data.h"
#include "daemon/config/config_inner.h"
#include "daemon/config/config_limits.h"
#include "daemon/config/config_model.h"
#include "daemon/config/config_names.h"

namespace atolld {

struct Config {
  struct Run {            // [run]        (coordinator, local)
    std::string id = "";  // empty: made from the file's name and the time of the first start
    uint64_t rounds = 40;
    uint64_t seed = 1337;
    uint32_t peers = 1;   // to wait for before the first round; `atoll local` starts as many
    uint32_t quorum = 0;  // fewest peers that may commit; 0: more than half of `peers`
  } run;
  ConfigModel model;  // [model]      (coordinator, local; the paths: peer too)
  DataConfig data;    // [data]
  using Inner = InnerConfig;
  Inner inner;    // [inner]
  struct Outer {  // [outer]
    std::string rule = "nesterov";
    double learning_rate = 0.7;  // with rule "average", where the file does not say: 1
    double momentum = 0.9;       // with rule "average", where the file does not say: 0; it has none
  } outer;
  struct Exchange {               // [exchange]
    std::string codec = "int8";   // of updates; "+zstd" may follow
    std::string upper_codec;      // of means, as codec; empty: codec
    bool error_feedback = false;  // with topk and int2, where the file does not say: true
    uint32_t chunk_elements = 65536;
    std::string plan = "auto";  // "flat"; "regions": each averages first; "auto": the faster
    double feedback_decay = 1;  // of what was lost; with topk, where the file does not say: 0.95
    std::string aggregation = "mean";         // how updates become one: a rule of optimizer/
    uint32_t faulty = 0, clipping_steps = 1;  // liars that it is to bear; of centred_clipping
    double clip = 1;                   // longer updates are scaled down to so many medians; 0: none
    double audit_share = 0.0625;       // of the chunks, recomputed by others before a commit
    std::string rounding = "nearest";  // "stochastic": no error adds up; where int8 and int4 are
  } exchange;
  struct Evaluation {  // [evaluation]
    uint64_t tokens = 65536;
    uint32_t every_rounds = 5;
  } evaluation;
  struct Membership {                                    // [membership]
    absl::Duration failure_timeout = absl::Seconds(10);  // the one time-out; "10s", "500ms"
    double weight_cap = 16;  // an update's weight, in medians of its round's; 0: none
    uint32_t offences = 3, offence_rounds = 16;  // the rest: coordinator; offender_rule.h
    double outsized = 8;                         // where the file does not say: DefaultOutsized()
  } membership;
  struct Coordinator {  // [coordinator] address: peer, coordinator; the rest: coordinator
    std::string address = "127.0.0.1:7070";
    std::string listen = "";  // empty: address
    std::string dir = "";     // where the store lives
    bool exit_when_sealed = false;
    std::string aggregator = "auto";      // "always", "never"; auto: where the run waits for one
    std::string aggregator_address = "";  // what peers dial; empty: address's host, the next port
  } coordinator;
  struct Peer {  // [peer]
    std::string id = "";
    std::string role = "peer";  // or kAggregatorRoleName: no worker, it reduces and donates
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
  struct Worker {              // [worker]
    std::string program = "";  // empty: the one for the run's model, beside this binary
    uint32_t threads = 1;
    std::string device = "auto";  // "cpu", "cuda:1", "cuda:0,cuda:1"; auto: a GPU if there is one
  } worker;
  struct Network {           // [network]
    bool plaintext = false;  // no certificates, on loopback alone; said knowingly
    uint64_t lanes = 1;      // connections to one peer, 1 to 16
  } network;
  ConfigLimits limits;  // [limits]
  struct Log {          // [log]
    std::string level = "info";
  } log;
};

// What a file is read for: decides which sections and keys must be there.
enum class ConfigUse { kAny, kLocal, kCoordinator, kPeer };

// A value that the command line gives instead of the file ("--rounds 3"). Messages name the option.
struct ConfigOverride {
  std::string option;
  std::string section;
  std::string key;  // must exist
  std::variant<int64_t, std::string> value;
};

// INVALID_ARGUMENT: the file does not exist, is no TOML, or breaks a rule (overrides counted in).
// Relative paths come back absolute.
absl::StatusOr<Config> LoadConfig(const std::string& path, ConfigUse use,
                                  const std::vector<ConfigOverride>& overrides = {});

// Of [membership] outsized. 0 where honest updates differ widely in length: with error feedback,
// which gives back at once what was held back, and with topk, which shows few values.
double DefaultOutsized(const Config& config);

// The program that trains a model of this kind: a file's name, beside our other binaries.
std::string WorkerProgramOf(const std::string& model_kind);

// A run id for a file without one: its name and the time, "quickstart-20250131-142501".
std::string MakeRunId(const std::string& path, absl::Time now);

// The file that LoadConfig would read back as `config`.
std::string FormatConfig(const Config& config);

// What the coordinator records of it. The run id must be set. decay_steps 0 becomes rounds x steps,
// or one step past the warm-up if that is later.
atolld::v1::RunSpec MakeRunSpec(const Config& config);

}  // namespace atolld
