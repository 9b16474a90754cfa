// The program itself, over its real socket: what no in-process test can show.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "atoll/v1/worker.grpc.pb.h"
#include "tests/unit/worker/training/fixtures.h"

namespace atolld {
namespace {

// Answers each message of the worker with what `react` puts into `answers`; false hangs up.
class ScriptedService final : public v1::Worker::Service {
 public:
  using React =
      std::function<bool(const v1::WorkerMessage&, std::vector<v1::DaemonMessage>& answers)>;
  explicit ScriptedService(React react) : react_(std::move(react)) {}

  grpc::Status Attach(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::DaemonMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    while (stream->Read(&message)) {
      std::vector<v1::DaemonMessage> answers;
      if (!react_(message, answers)) return grpc::Status(grpc::StatusCode::ABORTED, "hung up");
      for (const v1::DaemonMessage& answer : answers) stream->Write(answer);
    }
    return grpc::Status::OK;
  }

 private:
  const React react_;
};

class ProcessTest : public ::testing::Test {
 protected:
  // Serves one worker until it ends; returns its wait(2) status.
  int Serve(const ScriptedService::React& react) {
    const std::string address = "unix:" + (folder_ / "socket");
    ScriptedService service(react);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    EXPECT_NE(server, nullptr);
    return Run({"--socket", address});
  }

  // Runs the program; what it writes goes to the files `out` and `errors`.
  int Run(const std::vector<std::string>& arguments) {
    std::vector<char*> argv = {const_cast<char*>(ATOLL_WORKER_PROGRAM)};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const std::string out = folder_ / "out";
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string errors = folder_ / "errors";
      if (::freopen(out.c_str(), "w", stdout) == nullptr ||
          ::freopen(errors.c_str(), "w", stderr) == nullptr) {
        ::_exit(126);
      }
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  std::string Read(const std::string& name) {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  // Hello -> Configure -> MapMemory and TrainSteps of `steps`.
  ScriptedService::React Train(uint32_t steps, ScriptedService::React then) {
    std::ofstream(folder_ / "text") << SomeText(5000);
    std::ofstream(folder_ / "memory") << std::string(1 << 20, '\0');
    return [=](const v1::WorkerMessage& message, std::vector<v1::DaemonMessage>& answers) {
      if (message.has_hello()) {
        v1::Configure& configure = *answers.emplace_back().mutable_configure();
        *configure.mutable_spec() = TinySpec();
        configure.set_data_path(folder_ / "text");
        configure.set_threads(1);
        return true;
      }
      if (message.has_configured()) {
        v1::MapMemory& map = *answers.emplace_back().mutable_map_memory();
        map.set_path(folder_ / "memory");
        map.set_elements(message.configured().manifest().elements());
        map.set_update_offset(1 << 19);
        answers.emplace_back().mutable_write_initial_state();
        v1::TrainSteps& train = *answers.emplace_back().mutable_train();
        train.set_version(1);
        train.set_steps(steps);
        return true;
      }
      return then(message, answers);
    };
  }

  const TemporaryFolder folder_;
};

// Broken: the program would not train for a daemon, or not end when told to.
TEST_F(ProcessTest, TrainsAndStops) {
  bool boundary = false;
  const int status = Serve(Train(3, [&](const v1::WorkerMessage& message, auto& answers) {
    if (message.has_boundary()) {
      boundary = true;
      answers.emplace_back().mutable_stop();
    }
    return true;
  }));
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(boundary);
}

// Broken: a worker would outlive a daemon that is gone.
TEST_F(ProcessTest, EndsWhenTheStreamDoes) {
  EXPECT_EQ(Serve(Train(100000000,
                        [](const v1::WorkerMessage& message, auto&) {
                          return !message.has_progress() || message.progress().step() == 0;
                        })),
            0);
}

// Broken: SIGTERM in the middle of training would be ignored, or end the process as a crash does.
TEST_F(ProcessTest, EndsCleanlyOnSigterm) {
  pid_t worker = 0;
  const auto train = Train(100000000, [&](const v1::WorkerMessage& message, auto&) {
    if (message.has_progress() && message.progress().step() > 0) ::kill(worker, SIGTERM);
    return true;
  });
  EXPECT_EQ(Serve([&](const v1::WorkerMessage& message, auto& answers) {
              if (message.has_hello()) worker = static_cast<pid_t>(message.hello().pid());
              return train(message, answers);
            }),
            0);
}

// Broken: the daemon would see a worker vanish without a word.
TEST_F(ProcessTest, SaysWhyItFails) {
  std::string what;
  const int status = Serve([&](const v1::WorkerMessage& message, auto& answers) {
    if (message.has_hello()) {
      v1::Configure& configure = *answers.emplace_back().mutable_configure();
      *configure.mutable_spec() = TinySpec();
      configure.set_data_path(folder_ / "no such file");
    }
    if (message.has_failed()) what = message.failed().what();
    return true;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2);
  EXPECT_NE(what.find("no such file: No such file or directory"), std::string::npos) << what;
}

// Broken: text and exports could not be made from a replica's file.
TEST_F(ProcessTest, GeneratesAndExportsFromAFile) {
  std::ofstream(folder_ / "spec") << TinySpec().SerializeAsString();
  constexpr size_t kElements = 256 * 16 + 16 * 16 + 2 * (2 * 16 + 12 * 16 * 16) + 16;
  std::ofstream(folder_ / "theta") << std::string(8 + kElements * sizeof(float), '\0');
  const std::vector<std::string> model = {
      "--parameters", folder_ / "theta",        "--spec", folder_ / "spec", "--offset", "8",
      "--elements",   std::to_string(kElements)};
  std::vector<std::string> generate = {"generate", "--tokens=20", "--prompt=sea", "--top-k=5"};
  generate.insert(generate.end(), model.begin(), model.end());
  EXPECT_EQ(Run(generate), 0);
  EXPECT_EQ(Read("out").size(), 20u);
  std::vector<std::string> save = {"export", "--out", folder_ / "model.safetensors"};
  save.insert(save.end(), model.begin(), model.end());
  EXPECT_EQ(Run(save), 0);
  EXPECT_GT(Read("model.safetensors").size(), kElements * sizeof(float));

  EXPECT_EQ(WEXITSTATUS(Run({"generate", "--token=1"})), 2);
  EXPECT_EQ(WEXITSTATUS(Run({"export", "--out=x", "--spec=none", "--parameters=none"})), 2);
}

// A model of `vocabulary` ids as `atoll import` leaves it, all of whose parameters are 0.
void WriteImported(const std::string& folder, int vocabulary) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/model.toml")
      << "[model]\nkind = \"gpt\"\nlayers = 1\nheads = 1\nwidth = 4\ncontext = 16\nvocabulary = "
      << vocabulary << "\n";
  const std::pair<const char*, std::pair<int, int>> tensors[] = {
      {"transformer.wte.weight", {vocabulary, 4}},
      {"transformer.wpe.weight", {16, 4}},
      {"transformer.h.0.ln_1.weight", {4, 0}},
      {"transformer.h.0.attn.c_attn.weight", {12, 4}},
      {"transformer.h.0.attn.c_proj.weight", {4, 4}},
      {"transformer.h.0.ln_2.weight", {4, 0}},
      {"transformer.h.0.mlp.c_fc.weight", {16, 4}},
      {"transformer.h.0.mlp.c_proj.weight", {4, 16}},
      {"transformer.ln_f.weight", {4, 0}}};
  std::string header = "{";
  uint64_t offset = 0;
  for (const auto& [name, shape] : tensors) {
    const uint64_t bytes = 4u * static_cast<uint64_t>(shape.first) *
                           static_cast<uint64_t>(shape.second == 0 ? 1 : shape.second);
    header += (offset == 0 ? "\"" : ",\"") + std::string(name) +
              "\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(shape.first) +
              (shape.second == 0 ? "" : "," + std::to_string(shape.second)) +
              "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + bytes) + "]}";
    offset += bytes;
  }
  header += "}";
  const uint64_t length = header.size();
  std::ofstream(folder + "/model.safetensors", std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), 8) << header
      << std::string(offset, '\0');
}

// Broken: what `atoll import` has written could not be tried out or judged.
TEST_F(ProcessTest, GeneratesFromAndEvaluatesAnImportedFolder) {
  WriteImported(folder_ / "imported", 256);
  EXPECT_EQ(Run({"generate", "--model", folder_ / "imported", "--tokens=20", "--prompt=sea"}), 0)
      << Read("errors");
  EXPECT_EQ(Read("out").size(), 20u);
  std::ofstream(folder_ / "text.txt") << SomeText(5000);
  EXPECT_EQ(Run({"eval", "--model", folder_ / "imported", "--data", folder_ / "text.txt"}), 0)
      << Read("errors");
  EXPECT_NE(Read("out").find("\"perplexity\": 256"), std::string::npos) << Read("out");
}

// Broken: a model whose tokenizer nobody knows would give no text, no reason and the exit code of
// success.
TEST_F(ProcessTest, TokensOfAnUnknownTokenizerAreNoEmptyText) {
  v1::RunSpec spec = TinySpec();
  spec.mutable_model()->set_vocabulary(300000);
  spec.mutable_model()->set_layers(1);
  spec.mutable_data()->set_kind("bin");
  std::ofstream(folder_ / "spec") << spec.SerializeAsString();
  constexpr size_t kElements = 300000 * 16 + 16 * 16 + (2 * 16 + 12 * 16 * 16) + 16;
  std::ofstream(folder_ / "theta") << std::string(kElements * sizeof(float), '\0');
  const int status = Run({"generate", "--parameters", folder_ / "theta", "--spec", folder_ / "spec",
                          "--tokens=5", "--prompt=sea", "--temperature=1"});
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
  EXPECT_EQ(Read("out"), "");
  EXPECT_NE(Read("errors").find("5 of 5 sampled tokens are not among the tokenizer's 256 (bytes)"),
            std::string::npos)
      << Read("errors");
}

// Broken: a model with a personal layer could not be tried out or exported from the folder of the
// peer that has it; or would be exported without it, or with another peer's values, and no word.
TEST_F(ProcessTest, TakesPersonalTensorsFromAWorkersState) {
  v1::RunSpec spec = TinySpec();
  spec.mutable_model()->add_local("transformer.ln_f.*");
  const auto train = Train(3, [](const v1::WorkerMessage& message, auto& answers) {
    if (message.has_boundary()) answers.emplace_back().mutable_stop();
    return true;
  });
  uint64_t shared = 0;
  EXPECT_EQ(Serve([&](const v1::WorkerMessage& message, auto& answers) {
              const bool go_on = train(message, answers);
              if (message.has_configured()) shared = message.configured().manifest().elements();
              if (!message.has_hello()) return go_on;
              *answers[0].mutable_configure()->mutable_spec() = spec;
              answers[0].mutable_configure()->set_state_path(folder_ / "worker-state");
              return go_on;
            }),
            0);
  constexpr uint64_t kWhole = 256 * 16 + 16 * 16 + 2 * (2 * 16 + 12 * 16 * 16) + 16;
  ASSERT_EQ(shared, kWhole - 16);
  std::ofstream(folder_ / "spec") << spec.SerializeAsString();
  std::ofstream(folder_ / "theta") << std::string(shared * sizeof(float), '\0');
  std::vector<std::string> save = {
      "export", "--out",         folder_ / "model.safetensors", "--parameters", folder_ / "theta",
      "--spec", folder_ / "spec"};
  EXPECT_EQ(WEXITSTATUS(Run(save)), 2);
  EXPECT_NE(Read("errors").find("the state lacks transformer.ln_f.weight"), std::string::npos)
      << Read("errors");
  save.insert(save.end(), {"--personal", folder_ / "worker-state"});
  EXPECT_EQ(Run(save), 0) << Read("errors");
  const std::string model = Read("model.safetensors");
  EXPECT_GT(model.size(), kWhole * sizeof(float));
  EXPECT_NE(model.substr(model.size() - 64), std::string(64, '\0'));
}

}  // namespace
}  // namespace atolld
