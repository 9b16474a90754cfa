// A config file as a whole: its mistakes, what stands where nothing was said, and that what is
// written reads back the same.
#include "daemon/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "daemon/config/config_text.h"
#include "daemon/config/run_record.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// With a text to train on.
class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() { file_.Write("text.txt", "some text"); }

  std::string Write(const std::string& text) { return file_.Write("x.toml", text); }

  std::string ErrorOf(const std::string& text, ConfigUse use,
                      const std::vector<ConfigOverride>& overrides = {}) {
    return file_.ErrorOf(text, use, overrides);
  }

  ConfigFile file_;
};

struct BadFile {
  const char* text;
  const char* message;
  ConfigUse use = ConfigUse::kAny;
};

constexpr BadFile kBadFiles[] = {
    {"[inner]\nsteps = 5\nlearning_rte = 1\n",
     "x.toml:3: unknown key 'learning_rte' in [inner]; did you mean 'learning_rate'?"},
    {"[worker]\nfrobnicate = 1\n",
     "x.toml:2: unknown key 'frobnicate' in [worker]; valid are: program, threads, device, "
     "sharding, slower, memory, lora_rank"},
    {"[inner]\npace = \"time\"\n",
     "x.toml:2: [inner] time must be above 0s with pace 'time' and 0s with any other, not 0 with "
     "'time'"},
    {"[http]\nlisten = \"0.0.0.0:7080\"\n",
     "x.toml:2: [http] listen '0.0.0.0:7080' can be reached from other machines, so it needs "
     "[http] "
     "certificate, key, token_file too; an address such as '127.0.0.1:7080' needs none"},
    {"[http]\ncertificate = \"a\"\nkey = \"b\"\nlisten = \"atoll.example:0\"\n",
     "x.toml:4: [http] listen 'atoll.example:0' can be reached from other machines, so it needs "
     "[http] token_file too; an address such as '127.0.0.1:7080' needs none"},
    {"[http]\nlisten = \"[::1]:7080\"\nkey = \"b\"\n",
     "x.toml:3: [http] key needs [http] certificate beside it"},
    {"\n[iner]\nsteps = 5\n", "x.toml:2: unknown section [iner]; did you mean 'inner'?"},
    {"steps = 5\n", "x.toml:1: 'steps' stands outside any section; did you mean it in [inner]?"},
    {"inner = 5\n", "x.toml:1: 'inner' must be a section: [inner]"},
    {"zzz = 5\n", "x.toml:1: 'zzz' stands outside any section"},
    {"[inner]\nsteps = \"ten\"\n",
     "x.toml:2: [inner] steps must be a whole number from 1 to 1000000, not \"ten\""},
    {"[run]\nid = \"a\"\n\n[ inner ] # comment\n  steps = ten\n",
     "x.toml:5: [inner] steps must be a whole number from 1 to 1000000, not ten"},
    {"[membership]\nfailure_timeout = 3s\n",
     "x.toml:2: [membership] failure_timeout must be a time from \"100ms\" to \"1h\", with its "
     "unit, not 3s without quotes"},
    {"[inner]\nsteps = 0\n",
     "x.toml:2: [inner] steps must be a whole number from 1 to 1000000, not 0"},
    {"[inner]\nsteps = -3\n",
     "x.toml:2: [inner] steps must be a whole number from 1 to 1000000, not -3"},
    {"[inner]\nsteps = 2.5\n",
     "x.toml:2: [inner] steps must be a whole number from 1 to 1000000, not 2.5"},
    {"[inner]\nsteps = 2.0\n",
     "x.toml:2: [inner] steps must be a whole number from 1 to 1000000, not 2.0"},
    {"[inner]\nsteps = [1, 2]\n",
     "x.toml:2: [inner] steps must be a whole number from 1 to 1000000, not a list"},
    {"[inner]\nsteps = 1979-05-27\n",
     "x.toml:2: [inner] steps must be a whole number from 1 to 1000000, not a date or time"},
    {"[inner]\nlearning_rate = 0\n",
     "x.toml:2: [inner] learning_rate must be a number above 0 and at most 100, not 0"},
    {"[inner]\nlearning_rate = nan\n",
     "x.toml:2: [inner] learning_rate must be a number above 0 and at most 100, not nan"},
    {"[inner]\nbeta1 = 1.0\n", "x.toml:2: [inner] beta1 must be a number from 0 to below 1, not 1"},
    {"[model]\ndropout = 0.95\n",
     "x.toml:2: [model] dropout must be a number from 0 to 0.9, not 0.95"},
    {"[model]\ncontext = 1\n",
     "x.toml:2: [model] context must be a whole number from 2 to 1048576, not 1"},
    {"[model]\nwidth = 100\nheads = 3\n",
     "x.toml:3: [model] heads must divide width, and 3 does not divide 100"},
    {"[model]\nwidth = 130\n",
     "x.toml:2: [model] heads must divide width, and 4 does not divide 130"},
    {"[inner]\noptimizer = \"adam\"\n",
     "x.toml:2: [inner] optimizer must be 'adamw', 'muon' or 'sgd', not 'adam'; did you mean "
     "'adamw'?"},
    {"[model]\nkind = \"resnet\"\n",
     "x.toml:2: [model] kind must be 'gpt', 'gpt2', 'llama', 'huggingface', 'torchscript', "
     "'external' or 'stub', not 'resnet'"},
    {"[model]\nkind = \"stub\"\n",
     "x.toml:2: [model] parameters is missing: a model of kind 'stub' needs it"},
    {"[model]\nparameters = 5\n",
     "x.toml:2: [model] parameters is for kind 'stub' alone; a model of kind 'gpt' has as many "
     "as its shape says"},
    {"[inner]\nstep_time = \"20ms\"\n",
     "x.toml:2: [inner] step_time is for a model of kind 'stub' alone; kind 'gpt' takes the time "
     "that it needs"},
    {"[worker]\nslower = 0.5\n",
     "x.toml:2: [worker] slower must be a number from 1 to 1000, not 0.5"},
    {"[worker]\nslower = inf\n",
     "x.toml:2: [worker] slower must be a number from 1 to 1000, not inf"},
    {"[worker]\nprogram = \"/bin/true\"\nslower = 2\n[model]\nkind = \"external\"\n",
     "x.toml:3: [worker] slower must be 1 with kind 'external': only atoll-worker and the stub can "
     "play a slower machine"},
    {"[worker]\nprogram = \"/bin/true\"\nmemory = \"8GB\"\n[model]\nkind = \"external\"\n",
     "x.toml:3: [worker] memory must be 0 with kind 'external': what training needs is known of "
     "the "
     "kinds gpt, gpt2 and llama"},
    {"[worker]\ndevice = \"cuda\"\nmemory = \"8GB\"\n",
     "x.toml:3: [worker] memory must be 0 with device 'cuda': it limits training on CPUs"},
    {"[worker]\ndevice = \"mps\"\nmemory = \"8GB\"\n",
     "x.toml:3: [worker] memory must be 0 with device 'mps': it limits training on CPUs"},
    {"[worker]\ndevice = \"mps\"\n[data]\npath = \"x\"\n",
     "x.toml:2: [worker] device must not be 'mps' with kind 'gpt': only workers in Python train on "
     "Apple's GPU, those of kinds 'huggingface' and 'external'; take 'auto' or 'cpu'",
     ConfigUse::kLocal},
    {"[worker]\nsharding = \"full\"\n[data]\npath = \"x\"\n",
     "x.toml:2: [worker] sharding must be 'none' with kind 'gpt': only models of kind "
     "'huggingface' are divided among devices",
     ConfigUse::kLocal},
    {"[run]\nid = \"My Run\"\n",
     "x.toml:2: [run] id must be 1 to 64 characters of a-z, 0-9 and '-', not 'My Run'"},
    {"[run]\npeers = 3\nquorum = 4\n", "x.toml:3: [run] quorum must be at most peers (3), not 4"},
    {"[inner]\nwarmup_steps = 100\ndecay_steps = 100\n",
     "x.toml:2: [inner] warmup_steps must be below decay_steps (100), not 100"},
    {"[inner]\nmin_learning_rate = 1\n",
     "x.toml:2: [inner] min_learning_rate must be at most learning_rate (0.001), not 1"},
    {"[exchange]\ncodec = \"topk\"\nrounding = \"stochastic\"\n",
     "x.toml:3: [exchange] rounding must be 'nearest' with codec 'topk', which has no other, not "
     "'stochastic'"},
    {"[outer]\nrule = \"average\"\nmomentum = 0.9\n",
     "x.toml:3: [outer] momentum must be 0 with rule 'average', which has no momentum, not 0.9"},
    {"[exchange]\nerror_feedback = 1\n",
     "x.toml:2: [exchange] error_feedback must be true or false, not 1"},
    {"[exchange]\nchunk_elements = 5000\n",
     "x.toml:2: [exchange] chunk_elements must be a multiple of 4096 from 4096 to 524288, "
     "not 5000"},
    {"[exchange]\nchunk_elements = 528384\n",
     "x.toml:2: [exchange] chunk_elements must be a multiple of 4096 from 4096 to 524288, "
     "not 528384"},
    {"[membership]\nfailure_timeout = 10\n",
     "x.toml:2: [membership] failure_timeout must be a time from \"100ms\" to \"1h\", with its "
     "unit, not 10"},
    {"[membership]\nfailure_timeout = \"10\"\n",
     "x.toml:2: [membership] failure_timeout must be a time from \"100ms\" to \"1h\", with its "
     "unit, not \"10\""},
    {"[membership]\nfailure_timeout = \"99ms\"\n",
     "x.toml:2: [membership] failure_timeout must be a time from \"100ms\" to \"1h\", with its "
     "unit, not \"99ms\""},
    {"[coordinator]\naddress = \"nowhere\"\n",
     "x.toml:2: [coordinator] address must be an address like '127.0.0.1:7070' or "
     "'unix:/run/atoll', not 'nowhere'"},
    {"[coordinator]\naddress = \"127.0.0.1:0\"\n",
     "x.toml:2: [coordinator] address must be an address like '127.0.0.1:7070' or "
     "'unix:/run/atoll', not '127.0.0.1:0'"},
    {"[coordinator]\naddress = \"\"\n", "x.toml:2: [coordinator] address must be set, not empty"},
    {"[peer]\nlisten = \"0.0.0.0:7071\"\n[network]\nplaintext = true\n",
     "x.toml:2: [peer] listen '0.0.0.0:7071' is beyond this machine, where [network] plaintext "
     "= true would let anybody in; leave it out"},
    {"[coordinator]\naddress = \"0.0.0.0:7070\"\n",
     "x.toml:2: [coordinator] address '0.0.0.0:7070' is every address of a machine, and nobody can "
     "dial it: set it to a HOST:PORT that others reach; what is listened on is [coordinator] "
     "listen"},
    {"[coordinator]\naggregator_address = \"*:7071\"\n",
     "x.toml:2: [coordinator] aggregator_address '*:7071' is every address of a machine, and "
     "nobody can dial it: set it to a HOST:PORT that others reach; what is listened on is "
     "[coordinator] listen"},
    {"[peer]\nlisten = \"10.0.0.1:7071\"\nadvertise = \"[::]:7071\"\n",
     "x.toml:3: [peer] advertise '[::]:7071' is every address of a machine, and nobody can dial "
     "it: set it to a HOST:PORT that others reach; what is listened on is [peer] listen"},
    {"[peer]\nlisten = \"0.0.0.0:7071\"\n",
     "x.toml:2: [peer] listen '0.0.0.0:7071' says where this peer listens, and not where others "
     "dial it: set [peer] advertise to a HOST:PORT that they reach, or to 'none' where nobody can "
     "dial in"},
    {"[peer]\nid = \"a\"\ndir = \"/d\"\n[model]\nkind = \"stub\"\nparameters = 1\n"
     "[coordinator]\naddress = \"10.0.0.1:7070\"\n",
     "x.toml:8: [peer] listen '127.0.0.1:0' can be dialled from this machine alone, and the "
     "coordinator is at '10.0.0.1:7070': set [peer] listen to '0.0.0.0:PORT' and [peer] advertise "
     "to a HOST:PORT that others reach, or advertise to 'none' where nobody can dial in",
     ConfigUse::kPeer},
    {"[peer]\nadvertise = \"nobody\"\n",
     "x.toml:2: [peer] advertise must be an address like '127.0.0.1:7070', or 'none' where "
     "nobody "
     "can dial in, not 'nobody'"},
    {"[log]\nlevel = \"wraning\"\n",
     "x.toml:2: [log] level must be 'debug', 'info', 'warning' or 'error', not 'wraning'; did "
     "you mean 'warning'?"},
    {"[exchange]\nclipping_steps = 2\n",
     "x.toml:2: [exchange] clipping_steps must be left out: it is always 1, since an exchange "
     "with aggregation 'centred_clipping' makes one step"},
    {"# nothing\n", "x.toml:1: [data] path is missing: the text to train on, a file or a folder",
     ConfigUse::kLocal},
    {"\n[data]\n\nvalidation_fraction = 0.1\n",
     "x.toml:2: [data] path is missing: the text to train on, a file or a folder",
     ConfigUse::kLocal},
    {"[data]\npath = \"foo.txt\"\n", "x.toml:2: data.path 'foo.txt' does not exist",
     ConfigUse::kLocal},
    {"[data]\npath = \"~/foo.txt\"\n",
     "x.toml:2: data.path '~/foo.txt' does not exist; a config does not expand '~' and '$', so "
     "write the path out",
     ConfigUse::kLocal},
    {"[data]\npath = \"text.txt\"\n", "x.toml:1: [peer] id is missing: this peer's name in the run",
     ConfigUse::kPeer},
    {"[coordinator]\naddress = \"127.0.0.1:1\"\n",
     "x.toml:1: [coordinator] dir is missing: where the coordinator's store lives",
     ConfigUse::kCoordinator},
};

TEST_F(ConfigTest, EveryMistakeIsOneLineWithItsPlace) {
  // Broken: a mistake in a config would pass, or its message would not lead to the line that is
  // wrong.
  for (const BadFile& bad : kBadFiles) {
    EXPECT_EQ(ErrorOf(bad.text, bad.use), bad.message) << bad.text;
  }
}

TEST_F(ConfigTest, AKeyThatHadOneValueMayStandInOldFiles) {
  // Broken: daemons of an earlier release would not start again with the configs that it wrote.
  EXPECT_EQ(ErrorOf("[exchange]\nclipping_steps = 1\n", ConfigUse::kAny), "");
}

TEST_F(ConfigTest, APeerMaySayThatNobodyCanDialIt) {
  // Broken: a peer behind NAT has to give an address at which others would dial in vain.
  EXPECT_EQ(ErrorOf("[peer]\nadvertise = \"none\"\n", ConfigUse::kAny), "");
}

TEST_F(ConfigTest, UnknownCodecNamesTheNearest) {
  // Broken: a misspelt codec would be found out by a peer in the middle of a round.
  EXPECT_THAT(ErrorOf("[exchange]\ncodec = \"int9\"\n", ConfigUse::kAny),
              MatchesRegex("x.toml:2: \\[exchange\\] codec must be .*'int8'.*, not 'int9'; did you "
                           "mean 'int8'\\?"));
  EXPECT_THAT(ErrorOf("[exchange]\ncodec = \"tokp\"\n", ConfigUse::kAny),
              HasSubstr("did you mean 'topk'?"));
}

TEST_F(ConfigTest, SyntaxErrorsAreOneLineWithTheirPlace) {
  // Broken: a file that is no TOML would end the process by an exception, or be shown without its
  // line.
  for (const char* text : {"[inner]\nsteps = = 3\n", "[inner]\nsteps = 3\nsteps = 4\n",
                           "[inner]\nsteps = \"no end\n", "[inner\nsteps = 3\n"}) {
    const std::string error = ErrorOf(text, ConfigUse::kAny);
    EXPECT_THAT(error, MatchesRegex("x.toml:[1-4]: .+")) << text;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST_F(ConfigTest, FilesThatCannotBeReadAreNamed) {
  // Broken: a wrong path on the command line would be an empty config with all defaults.
  EXPECT_THAT(LoadConfig(file_.Path("none.toml"), ConfigUse::kAny).status().message(),
              HasSubstr("none.toml: there is no such file"));
  std::filesystem::create_symlink("loop.toml", file_.Path("loop.toml"));
  EXPECT_THAT(LoadConfig(file_.Path("loop.toml"), ConfigUse::kAny).status().message(),
              HasSubstr("loop.toml: Too many levels of symbolic links"));
  EXPECT_THAT(LoadConfig(file_.Path("."), ConfigUse::kAny).status().message(),
              HasSubstr(": is a folder, not a config file"));
}

TEST_F(ConfigTest, ATextIsReadAsAFileIs) {
  // Broken: `atoll config validate -` would refuse what it takes from a file, or name no line.
  const std::string folder = file_.Path("");
  const absl::StatusOr<Config> config =
      ParseConfig("[data]\npath = \"text.txt\"\n", "standard input", folder, ConfigUse::kLocal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.path, file_.Path("text.txt"));
  EXPECT_THAT(ParseConfig("[run]\npers = 1\n", "standard input", folder, ConfigUse::kAny)
                  .status()
                  .message(),
              HasSubstr("standard input:2: unknown key 'pers' in [run]; did you mean 'peers'?"));
  EXPECT_THAT(
      ParseConfig(std::string((1 << 20) + 1, '#'), "x", folder, ConfigUse::kAny).status().message(),
      HasSubstr("x: is larger than 1 MiB"));
}

TEST_F(ConfigTest, RelativePathsStartAtTheFilesFolder) {
  // Broken: a config would mean other files when it is used from another folder.
  const std::string path = Write(
      "[data]\npath = \"text.txt\"\n[peer]\nid = \"p\"\ndir = \"../state\"\n"
      "[worker]\nprogram = \"/opt/worker\"\n");
  const absl::StatusOr<Config> config = LoadConfig(path, ConfigUse::kPeer);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.path, file_.Path("text.txt"));
  EXPECT_EQ(config->peer.dir,
            std::filesystem::path(file_.Path("../state")).lexically_normal().string());
  EXPECT_EQ(config->worker.program, "/opt/worker");
  EXPECT_EQ(config->coordinator.dir, "");
}

TEST_F(ConfigTest, NesterovsRateFollowsThePeers) {
  // Broken: a lone peer would overshoot by Nesterov's rate for many, or many crawl by that for one.
  for (const auto& [peers, rate] :
       {std::pair{1, 0.4}, {2, 0.7}, {5, 0.7}, {6, 0.8}, {8, 0.8}, {12, 1.0}}) {
    const absl::StatusOr<Config> by_peers =
        LoadConfig(Write(absl::StrCat("[run]\npeers = ", peers, "\n")), ConfigUse::kAny);
    ASSERT_TRUE(by_peers.ok()) << by_peers.status();
    EXPECT_EQ(by_peers->outer.learning_rate, rate) << peers;
  }
  // Broken: the same federation would train another way where its parties share two peers.
  const absl::StatusOr<Config> hosted =
      LoadConfig(Write("[run]\npeers = 2\n[data]\nprivate = true\n[parties]\nhosted = 8\n"
                       "a_round = 4\n"),
                 ConfigUse::kAny);
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  EXPECT_EQ(hosted->outer.learning_rate, 0.8);
  const absl::StatusOr<Config> said =
      LoadConfig(Write("[run]\npeers = 1\n[outer]\nlearning_rate = 0.7\n"), ConfigUse::kAny);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->outer.learning_rate, 0.7);
}

TEST_F(ConfigTest, NesterovsRatesFollowWhatTrainsInside) {
  // Broken: MuLoCo would run at DiLoCo's rates, streaming at those of whole models, or a model of
  // billions at the quickstart's.
  const struct {
    const char* text;
    double learning_rate, momentum;
  } cases[] = {
      {"[inner]\noptimizer = \"muon\"\n", 0.7, 0.6},
      {"[run]\npeers = 4\n[inner]\noptimizer = \"muon\"\nsteps = 50\n", 0.9, 0.8},
      {"[run]\npeers = 4\n[inner]\noptimizer = \"sgd\"\nsteps = 50\n", 0.7, 0.9},
      {"[run]\npeers = 8\n[inner]\nsteps = 500\n", 0.7, 0.9},
      {"[run]\npeers = 2\n[mode]\nkind = \"streaming\"\n", 0.4, 0.9},
      {"[run]\npeers = 4\n[model]\nlayers = 24\nwidth = 1536\n", 0.6, 0.9},
      {"[run]\npeers = 4\n[model]\nkind = \"stub\"\nparameters = 400000000\n", 0.6, 0.9},
      // Each of the two that is said stands.
      {"[inner]\noptimizer = \"muon\"\n[outer]\nlearning_rate = 0.3\n", 0.3, 0.6},
      {"[inner]\noptimizer = \"muon\"\n[outer]\nmomentum = 0.5\n", 0.7, 0.5},
      {"[inner]\noptimizer = \"muon\"\n[outer]\nrule = \"average\"\n", 1, 0},
  };
  for (const auto& one : cases) {
    const absl::StatusOr<Config> config = LoadConfig(Write(one.text), ConfigUse::kAny);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->outer.learning_rate, one.learning_rate) << one.text;
    EXPECT_EQ(config->outer.momentum, one.momentum) << one.text;
  }
}

TEST_F(ConfigTest, MuonsWeightDecayFollowsThePeersBatch) {
  // Broken: many small steps would decay a matrix many times as much as the steps of 512 sequences
  // that the decay was tuned for, or what a file says would not be what is done.
  const auto decay = [&](const std::string& inner) {
    const absl::StatusOr<Config> config =
        LoadConfig(Write(absl::StrCat("[inner]\n", inner)), ConfigUse::kAny);
    return config.ok() ? MakeRunSpec(*config).inner().weight_decay() : -1;
  };
  EXPECT_EQ(decay("optimizer = \"muon\"\nbatch = 512\n"), 0.1);
  // MuLoCo's 16 peers at 2,048 sequences a step: steps_512 / (steps x K) is 4 / 16.
  EXPECT_EQ(decay("optimizer = \"muon\"\nbatch = 128\n"), 0.1 * 4 / 16);
  EXPECT_EQ(decay("optimizer = \"muon\"\nbatch = 65536\n"), 10);  // the most that is legal
  EXPECT_EQ(decay("optimizer = \"muon\"\nbatch = 128\nweight_decay = 0.1\n"), 0.1);
  EXPECT_EQ(decay("optimizer = \"adamw\"\nbatch = 128\n"), 0.1);
}

TEST_F(ConfigTest, AveragingTakesTheMeanAsItIs) {
  // Broken: `rule = "average"` alone would move the parameters by 0.7 of the mean, Nesterov's
  // setting.
  const absl::StatusOr<Config> config =
      LoadConfig(Write("[outer]\nrule = \"average\"\n"), ConfigUse::kAny);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->outer.learning_rate, 1);
  EXPECT_EQ(config->outer.momentum, 0);
}

TEST_F(ConfigTest, OverridesAreCheckedAndNamed) {
  // Broken: `atoll local --peers 0` would start, or blame a line of the file.
  const std::string text = "[run]\nquorum = 3\npeers = 3\n[data]\npath = \"foo.txt\"\n";
  const ConfigOverride data{"--data", "data", "path", file_.Path("text.txt")};
  EXPECT_EQ(ErrorOf(text, ConfigUse::kLocal, {data}), "");
  EXPECT_EQ(ErrorOf(text, ConfigUse::kLocal, {data, {"--peers", "run", "peers", int64_t{0}}}),
            "--peers: [run] peers must be a whole number from 1 to 1024, not 0");
  EXPECT_EQ(ErrorOf(text, ConfigUse::kLocal, {data, {"--peers", "run", "peers", int64_t{2}}}),
            "x.toml:2: [run] quorum must be at most peers (2), not 3");
  EXPECT_EQ(
      ErrorOf(text, ConfigUse::kLocal, {{"--data", "data", "path", std::string("/none/such.txt")}}),
      "--data: data.path '/none/such.txt' does not exist");
}

TEST_F(ConfigTest, WrittenConfigsReadBackTheSame) {
  // Broken: `atoll local` would give its daemons another run than the one that was asked for.
  Config config;
  config.run = {"my-run", 7, 99, 3, "", 2};
  config.model.heads = 8;
  config.data = {"/data/\"quoted\" \\ and\ttabbed.txt", 0.05};
  config.inner = {"sgd", 11,   "time", absl::Seconds(30), 3, 0.3, 1e-7, 5, 1000, 0.5,
                  0.75,  0.01, 0.5};
  config.outer = {"average", 1.0, 0.0, 0.99, 1e-3};
  config.exchange = {"int8+zstd", "bf16", "", true, 8192};
  config.exchange.feedback_decay = 0.5;
  config.exchange.rounding = "stochastic";
  config.evaluation = {1234, 2};
  config.membership.failure_timeout = absl::Milliseconds(1500);
  config.coordinator = {StoreConfig(), "127.0.0.1:7171", "127.0.0.1:0", "/run/c", true};
  config.peer = {"p-1", "aggregator",       "127.0.0.1:0", "", "/run/p", 5,
                 3,     20ull * 1000000000, 1234567};
  config.peer.up_rate = 1250000;
  config.worker = {"/bin/atoll-worker", 2, "cuda:1"};
  config.network.plaintext = true;
  config.log.level = "debug";
  const std::string text = FormatConfig(config);
  const absl::StatusOr<Config> read = LoadConfig(Write(text), ConfigUse::kAny);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatConfig(*read), text);
  EXPECT_EQ(read->data.path, config.data.path);
  EXPECT_EQ(read->inner.min_learning_rate, config.inner.min_learning_rate);
  EXPECT_EQ(read->membership.failure_timeout, config.membership.failure_timeout);
  EXPECT_EQ(read->peer.keep_bytes, config.peer.keep_bytes);
  EXPECT_EQ(read->peer.donate_bytes_per_second, config.peer.donate_bytes_per_second);
  EXPECT_EQ(read->peer.up_rate, config.peer.up_rate);

  const absl::StatusOr<Config> defaults =
      LoadConfig(Write(FormatConfig(Config())), ConfigUse::kAny);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(FormatConfig(*defaults), FormatConfig(Config()));

  Config stub;
  stub.model.kind = "stub";
  stub.model.parameters = uint64_t{1} << 34;
  stub.inner.step_time = absl::Microseconds(1500);
  const absl::StatusOr<Config> stub_read = LoadConfig(Write(FormatConfig(stub)), ConfigUse::kAny);
  ASSERT_TRUE(stub_read.ok()) << stub_read.status();
  EXPECT_EQ(FormatConfig(*stub_read), FormatConfig(stub));
}

TEST_F(ConfigTest, RunSpecCarriesTheRun) {
  // Broken: the run's record, which all peers follow, would differ from the file.
  Config config;
  config.run.id = "r";
  config.run.rounds = 4;
  config.inner.steps = 50;
  config.inner.warmup_steps = 10;
  config.exchange.codec = "int8+zstd";
  const v1::RunSpec spec = MakeRunSpec(config);
  EXPECT_EQ(spec.run_id(), "r");
  EXPECT_EQ(spec.numerics(), 1u);
  EXPECT_EQ(spec.model().vocabulary(), 256u);
  EXPECT_EQ(spec.data().kind(), "text");
  EXPECT_EQ(spec.inner().decay_steps(), 200u);
  EXPECT_EQ(spec.exchange().codec(), "int8");
  EXPECT_TRUE(spec.exchange().zstd());
  EXPECT_EQ(spec.exchange().feedback_decay_bits(), 0u);
  EXPECT_FALSE(spec.exchange().stochastic_rounding());
  float momentum;
  const uint32_t bits = spec.outer().momentum_bits();
  std::memcpy(&momentum, &bits, sizeof momentum);
  EXPECT_EQ(momentum, 0.9f);

  config.exchange.error_feedback = true;
  config.exchange.feedback_decay = 0.5;
  config.exchange.rounding = "stochastic";
  EXPECT_EQ(MakeRunSpec(config).exchange().feedback_decay_bits(), 0x3f000000u);
  EXPECT_TRUE(MakeRunSpec(config).exchange().stochastic_rounding());

  // A run that ends within its warm-up still has a schedule.
  config.inner.warmup_steps = 1000;
  EXPECT_EQ(MakeRunSpec(config).inner().decay_steps(), 1001u);
}

TEST_F(ConfigTest, ShippedConfigsAreValid) {
  // Broken: a file that users are told to run would be refused.
  if (!std::filesystem::exists(ATOLL_SHIPPED_CONFIGS)) GTEST_SKIP() << "no configs folder";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ATOLL_SHIPPED_CONFIGS)) {
    if (entry.path().extension() != ".toml") continue;
    const std::string folder = entry.path().parent_path().filename().string();
    // Of more than runs, or made whole in a container: tests/e2e/compose_test.py.
    if (folder == "experiments" || folder == "docker") continue;
    EXPECT_TRUE(LoadConfig(entry.path().string(), ConfigUse::kAny).ok())
        << LoadConfig(entry.path().string(), ConfigUse::kAny).status();
  }
}

TEST(RunId, MadeOnesAreValid) {
  // Broken: a file with an odd name would make a run that every peer refuses.
  const absl::Time now =
      absl::FromCivil(absl::CivilSecond(2025, 1, 31, 14, 25, 1), absl::UTCTimeZone());
  EXPECT_EQ(MakeRunId("configs/quickstart.toml", now), "quickstart-20250131-142501");
  EXPECT_EQ(MakeRunId("My  Run_2!.toml", now), "my-run-2-20250131-142501");
  EXPECT_EQ(MakeRunId("\xc3\xa9.toml", now), "run-20250131-142501");
  EXPECT_LE(MakeRunId(std::string(100, 'a') + ".toml", now).size(), 64u);
}

}  // namespace
}  // namespace atolld
