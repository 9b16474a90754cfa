#include "daemon/bench/exchange_bench_peer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "compression/wire_codec.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/process_log.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/wake.h"
#include "daemon/transport/grpc_transport.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {
namespace {

constexpr char kRun[] = "bench";
constexpr absl::Duration kFailureTimeout = absl::Seconds(20);
// 1 in fp32.
constexpr uint32_t kWeightOne = 0x3f800000;
// This many values, at the vector's beginning, are compared with the true mean.
constexpr uint64_t kChecked = uint64_t{1} << 20;

// Returns the contribution of peer `index`; the first values do not depend on how many are drawn.
std::vector<float> Draw(size_t index, uint64_t count) {
  std::mt19937_64 random(index + 1);
  std::normal_distribution<float> normal(0.0f, 1e-3f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class BenchPeer {
 public:
  BenchPeer(const BenchPeerOptions& options, const LevelCodecs& codecs, Env env)
      : options_(options),
        codecs_(codecs),
        env_(env),
        grid_(options.elements, options.chunk_elements),
        server_(env, kRun, kFailureTimeout),
        wakes_(env, kFailureTimeout),
        values_(Draw(options.index, options.elements)),
        mean_(options.elements) {}

  void Accept(const std::string& method, std::unique_ptr<Call> call) {
    if (method == kWakeMethod) return wakes_.Accept(std::move(call));
    server_.Accept(std::move(call));
  }

  // Prints `listening` and is then told the others.
  void OnOrder(const std::string& line);
  void OnOrdersEnd() { end_(absl::OkStatus()); }
  void OnEnd(std::function<void(absl::Status)> end) { end_ = std::move(end); }

 private:
  void SetPeers(const std::vector<std::string>& addresses);
  void Wake();
  void Go(uint64_t repetition);
  void BeginExchange(std::shared_ptr<const Contribution> contribution);
  void OnComplete(ExchangeOutcome outcome);
  void Decode(const std::vector<SharedBytes>& chunks, uint32_t first, uint32_t end);
  void OnDecoded(const absl::Status& status);
  void Fail(const absl::Status& status) { end_(status); }

  const BenchPeerOptions options_;
  const LevelCodecs codecs_;
  Env env_;
  const ChunkGrid grid_;
  ExchangeServer server_;
  WakeCalls wakes_;
  const std::vector<float> values_;
  std::vector<float> mean_;
  std::vector<double> expected_;  // the first values of the true mean
  std::vector<std::string> addresses_;
  TrafficCount traffic_;
  std::unique_ptr<Exchange> exchange_;
  std::function<void(absl::Status)> end_;

  BenchPeerTimes times_;
  uint64_t sent_before_ = 0;
  double cpu_before_ = 0;
  absl::Time phase_began_;
  int decoding_ = 0;
  absl::Status decoded_;
};

void BenchPeer::OnOrder(const std::string& line) {
  std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  uint64_t repetition = 0;
  if (words.size() > 1 && words[0] == "peers") {
    words.erase(words.begin());
    SetPeers(words);
  } else if (words.size() == 2 && words[0] == "go" && absl::SimpleAtoi(words[1], &repetition)) {
    Go(repetition);
  } else if (line == "wake") {
    Wake();
  } else {
    Fail(absl::InvalidArgumentError(absl::StrCat("not an order: ", line)));
  }
}

void BenchPeer::SetPeers(const std::vector<std::string>& addresses) {
  addresses_ = addresses;
  expected_.assign(std::min(options_.elements, kChecked), 0);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::vector<float> values = Draw(i, expected_.size());
    for (size_t k = 0; k < values.size(); ++k) {
      expected_[k] += static_cast<double>(values[k]) / static_cast<double>(addresses.size());
    }
  }
  std::printf("ready\n");
  std::fflush(stdout);
}

void BenchPeer::Wake() {
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const bool dials = i != options_.index && addresses_[i] != kNoAddress;
    if (!dials) continue;
    wakes_.Wake(addresses_[i], static_cast<uint32_t>(options_.lanes), kMostWakeBytes, nullptr);
  }
}

void BenchPeer::Go(uint64_t repetition) {
  times_ = {};
  times_.repetition = repetition;
  sent_before_ = traffic_.sent_bytes;
  cpu_before_ = CpuSeconds();
  phase_began_ = env_.executor.Now();
  auto encoded = std::make_shared<absl::StatusOr<Contribution>>(absl::UnknownError("not begun"));
  env_.executor.Offload(
      [this, encoded] {
        *encoded = EncodeContribution(grid_, *codecs_.updates.codec, Rounding(), values_);
      },
      [this, encoded] {
        if (!encoded->ok()) return Fail(encoded->status());
        BeginExchange(std::make_shared<const Contribution>(**std::move(encoded)));
      });
}

void BenchPeer::BeginExchange(std::shared_ptr<const Contribution> contribution) {
  const absl::Time now = env_.executor.Now();
  times_.encode_seconds = absl::ToDoubleSeconds(now - phase_began_);
  phase_began_ = now;
  ExchangeTerms terms;
  terms.version = times_.repetition;
  terms.epoch = 1;
  terms.parameters = options_.elements;
  terms.chunk_elements = options_.chunk_elements;
  terms.deadline = kFailureTimeout;
  std::vector<ExchangeContributor> contributors(addresses_.size());
  for (size_t i = 0; i < addresses_.size(); ++i) {
    contributors[i].member.set_peer(BenchPeerName(i));
    if (addresses_[i] != kNoAddress) contributors[i].member.set_address(addresses_[i]);
    contributors[i].member.set_weight_bits(kWeightOne);
  }
  ExchangeSettings settings;
  settings.run_id = kRun;
  settings.self = BenchPeerName(options_.index);
  settings.codec = codecs_.updates.codec;
  settings.zstd = codecs_.updates.zstd;
  settings.upper_codec = codecs_.means.codec;
  settings.upper_zstd = codecs_.means.zstd;
  settings.grid = grid_;
  settings.failure_timeout = kFailureTimeout;
  settings.traffic = &traffic_;
  settings.lanes = static_cast<uint32_t>(options_.lanes);
  Exchange::Events events;
  events.on_complete = [this](ExchangeOutcome outcome) { OnComplete(std::move(outcome)); };
  events.on_reducer_unreachable = [this](std::string reducer, absl::Status why) {
    Fail(Annotate(why, reducer));
  };
  events.on_failed = [this](absl::Status why) { Fail(why); };
  server_.SetCurrent(nullptr);
  exchange_ = std::make_unique<Exchange>(env_, settings, ReductionPlan(terms, contributors).proto(),
                                         std::move(contribution), std::move(events));
  server_.SetCurrent(exchange_.get());
}

void BenchPeer::OnComplete(ExchangeOutcome outcome) {
  const absl::Time now = env_.executor.Now();
  times_.exchange_seconds = absl::ToDoubleSeconds(now - phase_began_);
  phase_began_ = now;
  times_.digest = ToHex(outcome.payload_digest);
  auto chunks = SplitPayload(grid_, *codecs_.means.codec, outcome.payload);
  if (!chunks.ok()) return Fail(chunks.status());
  const auto shared = std::make_shared<const std::vector<SharedBytes>>(*std::move(chunks));
  decoding_ = options_.threads;
  decoded_ = absl::OkStatus();
  const auto parts = static_cast<uint32_t>(options_.threads);
  for (uint32_t part = 0; part < parts; ++part) {
    const auto bound = [&](uint64_t at) {
      return static_cast<uint32_t>(uint64_t{grid_.chunks()} * at / parts);
    };
    auto status = std::make_shared<absl::Status>();
    env_.executor.Offload(
        [this, shared, status, first = bound(part), end = bound(part + 1)] {
          for (uint32_t c = first; c < end && status->ok(); ++c) {
            *status = codecs_.means.codec->DecodeToMemory(
                (*shared)[c].span(),
                absl::MakeSpan(mean_).subspan(grid_.Offset(c), grid_.Elements(c)));
          }
        },
        [this, status] { OnDecoded(*status); });
  }
}

void BenchPeer::OnDecoded(const absl::Status& status) {
  if (decoded_.ok()) decoded_ = status;
  if (--decoding_ > 0) return;
  if (!decoded_.ok()) return Fail(decoded_);
  times_.decode_seconds = absl::ToDoubleSeconds(env_.executor.Now() - phase_began_);
  times_.cpu_seconds = CpuSeconds() - cpu_before_;
  times_.bytes_sent = traffic_.sent_bytes - sent_before_;
  // The clock of the parent stops when it reads this line; what follows is not measured.
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < expected_.size(); ++i) {
    const double difference = static_cast<double>(mean_[i]) - expected_[i];
    error += difference * difference;
    norm += expected_[i] * expected_[i];
  }
  times_.relative_error = norm > 0 ? std::sqrt(error / norm) : 0;
  std::printf("%s\n", times_.Line().c_str());
  std::fflush(stdout);
}

}  // namespace

std::string BenchPeerTimes::Line() const {
  return absl::StrFormat("done %d %.9f %.9f %.9f %.9f %d %.9g %s", repetition, encode_seconds,
                         exchange_seconds, decode_seconds, cpu_seconds, bytes_sent, relative_error,
                         digest);
}

absl::StatusOr<BenchPeerTimes> BenchPeerTimes::FromLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  BenchPeerTimes times;
  if (words.size() != 9 || words[0] != "done" || !absl::SimpleAtoi(words[1], &times.repetition) ||
      !absl::SimpleAtod(words[2], &times.encode_seconds) ||
      !absl::SimpleAtod(words[3], &times.exchange_seconds) ||
      !absl::SimpleAtod(words[4], &times.decode_seconds) ||
      !absl::SimpleAtod(words[5], &times.cpu_seconds) ||
      !absl::SimpleAtoi(words[6], &times.bytes_sent) ||
      !absl::SimpleAtod(words[7], &times.relative_error)) {
    return absl::InvalidArgumentError(absl::StrCat("not the figures of a repetition: ", line));
  }
  times.digest = std::string(words[8]);
  return times;
}

std::string BenchPeerName(size_t index) { return absl::StrFormat("peer-%02d", index + 1); }

int RunBenchPeer(const BenchPeerOptions& options) {
  const absl::StatusOr<LevelCodecs> codecs = ParseLevels(options.codec, options.upper_codec);
  const absl::StatusOr<std::unique_ptr<ProcessLog>> log =
      ProcessLog::Open({Log::Level::kWarning, "", false});
  GrpcTransport::Options network;
  network.failure_timeout = kFailureTimeout;
  network.lanes = options.lanes;
  absl::Status status = codecs.ok() ? log.status() : codecs.status();
  if (status.ok() && !options.certificates.empty()) {
    network.tls = MakeTlsCredentials(options.certificates);
  }
  if (!status.ok()) {
    std::cerr << status.message() << "\n";
    return 1;
  }
  PosixExecutor executor({options.threads, 0});
  PosixFiles files;
  GrpcTransport transport(executor, network);
  int code = 0;
  {
    BenchPeer peer(options, *codecs, Env{executor, files, transport, **log});
    peer.OnEnd([&](const absl::Status& why) {
      if (!why.ok()) std::cerr << why.message() << "\n";
      code = why.ok() ? code : 1;
      executor.Stop();
    });
    const absl::StatusOr<std::unique_ptr<Listener>> listener =
        transport.Listen(absl::StrCat(options.host, ":0"),
                         [&peer](const std::string& method, std::unique_ptr<Call> call) {
                           peer.Accept(method, std::move(call));
                         });
    if (!listener.ok()) {
      std::cerr << listener.status().message() << "\n";
      return 1;
    }
    std::printf("listening %s\n", (*listener)->address().c_str());
    std::fflush(stdout);
    // The pipe is read by a thread of its own: the loop serves the others between repetitions too.
    std::thread reader([&] {
      FILE* const orders = fdopen(options.orders, "r");
      char* line = nullptr;
      size_t capacity = 0;
      ssize_t size = 0;
      while (orders != nullptr && (size = getline(&line, &capacity, orders)) > 0) {
        std::string order(line, static_cast<size_t>(size));
        while (!order.empty() && order.back() == '\n') order.pop_back();
        executor.Post([&peer, order] { peer.OnOrder(order); });
      }
      free(line);
      if (orders != nullptr) fclose(orders);
      executor.Post([&peer] { peer.OnOrdersEnd(); });
    });
    executor.Run();
    // After a failure the parent closes the pipe, too.
    reader.join();
  }
  return code;
}

}  // namespace atolld
