#include "tests/sim/seed_runner.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/peer/peer_training.h"
#include "tests/sim/swarm.h"

namespace atolld {
namespace {

using Clock = std::chrono::steady_clock;

// How often progress is printed.
constexpr double kProgressSeconds = 10;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The totals over all seeds.
struct Totals {
  uint64_t seeds = 0;
  uint64_t events = 0;
  uint64_t rounds = 0;
  uint64_t counted = 0;  // had at least half of their faults land
  uint64_t judged = 0;
  uint64_t stranded = 0;  // peers
  uint64_t hostile = 0;   // with a peer that did lie as a reducer or an auditor
  uint64_t lies_committed = 0;
  uint64_t liars_evicted = 0;
  uint64_t guesses = 0;
  uint64_t refreshed = 0;
  uint64_t slow_updates = 0;
  uint64_t twice = 0;
  uint64_t terms = 0;  // of leaders, where several coordinators share a store
  std::array<uint64_t, kFaultKinds> planned{};
  std::array<uint64_t, kFaultKinds> landed{};
  std::vector<uint64_t> transitions = std::vector<uint64_t>(PeerTraining::Transitions().size(), 0);
  std::vector<std::string> failures;
};

// Returns the command that repeats a seed.
std::string CommandOf(uint64_t seed, bool calm, const std::string& mode, const std::string& store) {
  return absl::StrCat("atoll-sim --seed=", seed, calm ? " --calm" : "",
                      mode.empty() ? "" : " --mode=", mode, store.empty() ? "" : " --store=", store,
                      " --verbose");
}

std::string FailureLine(const SwarmResult& result) {
  const Violation& violation = *result.violation;
  return absl::StrFormat(
      "%s   # at %.6f s, invariant %d: %s",
      CommandOf(result.seed, result.calm, result.only_mode, result.coordinators > 1 ? "etcd" : ""),
      absl::ToDoubleSeconds(violation.time), violation.invariant, violation.what);
}

SwarmResult RunSeed(uint64_t seed, const SeedOptions& options) {
  SwarmPlan plan = DrawPlan(seed, options.mode, options.store);
  if (options.calm) plan.faults.clear();
  Swarm::Tell tell;
  if (options.verbose) {
    std::cout << "seed " << seed << ": " << Describe(plan) << "\n";
    tell = [](const std::string& lines) { std::cout << lines << std::flush; };
  }
  SwarmResult result = Swarm(plan, tell).Run();
  result.calm = options.calm;
  result.only_mode = options.mode;
  return result;
}

// Runs one seed, or the same one twice; both digests must then be equal.
SwarmResult RunOnceOrTwice(uint64_t seed, bool twice, SeedOptions options) {
  SwarmResult result = RunSeed(seed, options);
  if (!twice || result.violation) return result;
  options.verbose = false;
  const SwarmResult again = RunSeed(seed, options);
  if (again.digest != result.digest || again.events != result.events) {
    result.violation = Violation{absl::ZeroDuration(), 13, "the second run was another history"};
  }
  return result;
}

void Add(const SwarmResult& result, bool twice, Totals* totals) {
  ++totals->seeds;
  totals->events += result.events;
  totals->rounds += result.rounds;
  totals->counted += result.counts() ? 1 : 0;
  totals->judged += result.judged ? 1 : 0;
  totals->stranded += static_cast<uint64_t>(result.stranded);
  totals->hostile += result.hostile_acts > 0 ? 1 : 0;
  totals->lies_committed += result.lies_committed;
  totals->liars_evicted += result.liars_evicted;
  totals->guesses += result.guesses;
  totals->refreshed += result.refreshed;
  totals->slow_updates += result.slow_updates;
  totals->twice += twice ? 1 : 0;
  totals->terms += result.terms;
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    totals->planned[kind] += static_cast<uint64_t>(result.planned[kind]);
    totals->landed[kind] += static_cast<uint64_t>(result.landed[kind]);
  }
  for (size_t i = 0; i < result.transitions.size(); ++i) {
    totals->transitions[i] += result.transitions[i];
  }
  if (result.violation) totals->failures.push_back(FailureLine(result));
}

// A job's lines to its parent: "begin POSITION", then "end POSITION FIELDS... | FAILURE".
std::string Encode(size_t position, const SwarmResult& result) {
  std::string line = absl::StrCat(
      "end ", position, " ", result.events, " ", result.rounds, " ", result.counts() ? 1 : 0, " ",
      result.judged ? 1 : 0, " ", result.stranded, " ", result.hostile_acts > 0 ? 1 : 0, " ",
      result.lies_committed, " ", result.liars_evicted, " ", result.guesses, " ", result.refreshed,
      " ", result.slow_updates, " ", result.terms);
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    absl::StrAppend(&line, " ", result.planned[kind], " ", result.landed[kind]);
  }
  absl::StrAppend(&line, " ", absl::StrJoin(result.transitions, " "));
  if (result.violation) absl::StrAppend(&line, " | ", FailureLine(result));
  return line + "\n";
}

void Decode(const std::string& line, bool twice, Totals* totals) {
  const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" | ", 1));
  std::istringstream fields(halves[0]);
  uint64_t events = 0;
  uint64_t rounds = 0;
  uint64_t counted = 0;
  uint64_t judged = 0;
  uint64_t stranded = 0;
  uint64_t hostile = 0;
  uint64_t lies_committed = 0;
  uint64_t liars_evicted = 0;
  uint64_t guesses = 0;
  uint64_t refreshed = 0;
  uint64_t slow_updates = 0;
  uint64_t terms = 0;
  fields >> events >> rounds >> counted >> judged >> stranded >> hostile >> lies_committed >>
      liars_evicted >> guesses >> refreshed >> slow_updates >> terms;
  ++totals->seeds;
  totals->events += events;
  totals->rounds += rounds;
  totals->counted += counted;
  totals->judged += judged;
  totals->stranded += stranded;
  totals->hostile += hostile;
  totals->lies_committed += lies_committed;
  totals->liars_evicted += liars_evicted;
  totals->guesses += guesses;
  totals->refreshed += refreshed;
  totals->slow_updates += slow_updates;
  totals->twice += twice ? 1 : 0;
  totals->terms += terms;
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    uint64_t planned = 0;
    uint64_t landed = 0;
    fields >> planned >> landed;
    totals->planned[kind] += planned;
    totals->landed[kind] += landed;
  }
  for (uint64_t& total : totals->transitions) {
    uint64_t made = 0;
    fields >> made;
    total += made;
  }
  if (halves.size() > 1) totals->failures.push_back(halves[1]);
}

// One process that runs every jobs-th seed from `next` on.
struct Job {
  pid_t pid = -1;
  int pipe = -1;
  size_t next = 0;     // position of its next seed
  std::string buffer;  // a line that is not whole yet
};

class Jobs {
 public:
  Jobs(const SeedOptions& options, Totals* totals)
      : options_(options), totals_(totals), jobs_(static_cast<size_t>(std::max(1, options.jobs))) {}

  bool Run() {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      jobs_[i].next = i;
      if (!Begin(&jobs_[i])) return false;
    }
    while (Open() > 0) {
      if (!Wait()) return false;
      Progress();
    }
    return true;
  }

 private:
  size_t Open() const {
    return static_cast<size_t>(
        std::count_if(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.pipe >= 0; }));
  }

  bool Begin(Job* job) {
    job->pipe = -1;
    if (job->next >= options_.seeds.size()) return true;
    int ends[2];
    if (pipe(ends) != 0) return false;
    std::cout.flush();
    job->pid = fork();
    if (job->pid < 0) return false;
    if (job->pid == 0) {
      close(ends[0]);
      Work(job->next, ends[1]);
      _exit(0);
    }
    close(ends[1]);
    job->pipe = ends[0];
    return true;
  }

  // The child's.
  void Work(size_t position, int out) {
    for (; position < options_.seeds.size(); position += jobs_.size()) {
      Say(out, absl::StrCat("begin ", position, "\n"));
      const bool twice = position < options_.twice;
      Say(out, Encode(position, RunOnceOrTwice(options_.seeds[position], twice, options_)));
    }
  }

  static void Say(int out, const std::string& line) {
    size_t at = 0;
    while (at < line.size()) {
      const ssize_t written = write(out, line.data() + at, line.size() - at);
      if (written <= 0) _exit(1);
      at += static_cast<size_t>(written);
    }
  }

  bool Wait() {
    std::vector<pollfd> waiting;
    std::vector<Job*> owners;
    for (Job& job : jobs_) {
      if (job.pipe < 0) continue;
      waiting.push_back({job.pipe, POLLIN, 0});
      owners.push_back(&job);
    }
    poll(waiting.data(), waiting.size(), 1000);
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0 && !Take(owners[i])) return false;
    }
    return true;
  }

  bool Take(Job* job) {
    char bytes[4096];
    const ssize_t got = read(job->pipe, bytes, sizeof(bytes));
    if (got > 0) {
      job->buffer.append(bytes, static_cast<size_t>(got));
      for (size_t end = job->buffer.find('\n'); end != std::string::npos;
           end = job->buffer.find('\n')) {
        TakeLine(job, job->buffer.substr(0, end));
        job->buffer.erase(0, end + 1);
      }
      return true;
    }
    return End(job);
  }

  void TakeLine(Job* job, const std::string& line) {
    std::istringstream in(line);
    std::string word;
    in >> word >> job->next;
    if (word == "begin") return;
    const size_t failures = totals_->failures.size();
    std::string rest;
    std::getline(in, rest);
    Decode(rest, job->next < options_.twice, totals_);
    if (totals_->failures.size() > failures) std::cerr << totals_->failures.back() << std::endl;
    job->next += jobs_.size();
  }

  // A process that ends before its last seed has crashed in the one that it had begun.
  bool End(Job* job) {
    close(job->pipe);
    job->buffer.clear();
    int status = 0;
    waitpid(job->pid, &status, 0);
    if (job->next < options_.seeds.size()) {
      ++totals_->seeds;
      totals_->failures.push_back(absl::StrFormat(
          "%s   # the process ended with %s %d",
          CommandOf(options_.seeds[job->next], options_.calm, options_.mode, options_.store),
          WIFSIGNALED(status) ? "signal" : "status",
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
      std::cerr << totals_->failures.back() << std::endl;
      job->next += jobs_.size();
    }
    return Begin(job);
  }

  void Progress() {
    if (SecondsSince(told_) < kProgressSeconds) return;
    told_ = Clock::now();
    std::cerr << absl::StrFormat("%d of %d seeds, %d failed\n", totals_->seeds,
                                 options_.seeds.size(), totals_->failures.size())
              << std::flush;
  }

  const SeedOptions& options_;
  Totals* const totals_;
  std::vector<Job> jobs_;
  Clock::time_point told_ = Clock::now();
};

void PrintJson(const Totals& totals, double seconds) {
  std::vector<std::string> kinds;
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    kinds.push_back(absl::StrFormat("\"%s\": {\"planned\": %d, \"landed\": %d}",
                                    FaultName(static_cast<FaultKind>(kind)), totals.planned[kind],
                                    totals.landed[kind]));
  }
  std::vector<std::string> transitions;
  for (size_t i = 0; i < totals.transitions.size(); ++i) {
    transitions.push_back(absl::StrFormat(
        "\"%s\": %d", PeerTraining::TextOf(PeerTraining::Transitions()[i]), totals.transitions[i]));
  }
  std::cout << absl::StrFormat(
      "{\"seeds\": %d, \"failed\": %d, \"twice\": %d, \"events\": %d, \"rounds\": %d, "
      "\"counted\": %d, \"judged\": %d, \"stranded\": %d, \"hostile\": %d, "
      "\"lies_committed\": %d, \"liars_evicted\": %d, \"guesses\": %d, \"refreshed\": %d, "
      "\"slow_updates\": %d, \"terms\": %d, "
      "\"seconds\": %.3f, \"faults\": {%s}, \"transitions\": {%s}}\n",
      totals.seeds, totals.failures.size(), totals.twice, totals.events, totals.rounds,
      totals.counted, totals.judged, totals.stranded, totals.hostile, totals.lies_committed,
      totals.liars_evicted, totals.guesses, totals.refreshed, totals.slow_updates, totals.terms,
      seconds, absl::StrJoin(kinds, ", "), absl::StrJoin(transitions, ", "));
}

void PrintTotals(const Totals& totals, double seconds) {
  const uint64_t planned =
      std::accumulate(totals.planned.begin(), totals.planned.end(), uint64_t{0});
  const uint64_t landed = std::accumulate(totals.landed.begin(), totals.landed.end(), uint64_t{0});
  const double seeds = static_cast<double>(std::max<uint64_t>(1, totals.seeds));
  std::cout << absl::StrFormat(
      "%d seeds (%d of them twice), %d failed; %d events, %d rounds committed\n", totals.seeds,
      totals.twice, totals.failures.size(), totals.events, totals.rounds);
  std::cout << absl::StrFormat(
      "%d faults planned, %d landed; %.1f %% of the seeds count (half of "
      "their faults landed), liveness of a core judged in %.1f %%\n",
      planned, landed, 100 * static_cast<double>(totals.counted) / seeds,
      100 * static_cast<double>(totals.judged) / seeds);
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    std::cout << absl::StrFormat("  %-26s %7d of %7d landed\n",
                                 FaultName(static_cast<FaultKind>(kind)), totals.landed[kind],
                                 totals.planned[kind]);
  }
  std::cout << "the machine of a training:\n";
  for (size_t i = 0; i < totals.transitions.size(); ++i) {
    std::cout << absl::StrFormat("  %-34s %10d times\n",
                                 PeerTraining::TextOf(PeerTraining::Transitions()[i]),
                                 totals.transitions[i]);
  }
  std::cout << absl::StrFormat(
      "%d peers were dead at the end and found nobody when they came back\n", totals.stranded);
  std::cout << absl::StrFormat(
      "a reducer or an auditor lied in %d seeds: %d evicted, %d of its lies committed where not "
      "all "
      "could be audited; nobody honest was evicted in the %d seeds that held\n",
      totals.hostile, totals.liars_evicted, totals.lies_committed,
      totals.seeds - totals.failures.size());
  std::cout << absl::StrFormat(
      "%d guesses of states were the oracle's, in %d of them a fresh update took the place of a "
      "stale one\n",
      totals.guesses, totals.refreshed);
  std::cout << absl::StrFormat("%d updates in entries were in the codec of slow lines\n",
                               totals.slow_updates);
  if (totals.terms > 0) {
    std::cout << absl::StrFormat("coordinators led %d times\n", totals.terms);
  }
  std::cout << absl::StrFormat("%.1f s, %.1f seeds/s\n", seconds, seeds / seconds);
}

void TellVerdict(const SwarmResult& result) {
  if (!result.violation) return;
  std::cout << absl::StrFormat("%12.6f *** invariant %d is violated: %s\n",
                               absl::ToDoubleSeconds(result.violation->time),
                               result.violation->invariant, result.violation->what);
}

}  // namespace

int RunSeeds(const SeedOptions& options) {
  const Clock::time_point begin = Clock::now();
  Totals totals;
  if (options.verbose) {
    for (size_t i = 0; i < options.seeds.size(); ++i) {
      const bool twice = i < options.twice;
      const SwarmResult result = RunOnceOrTwice(options.seeds[i], twice, options);
      if (result.violation) std::cerr << FailureLine(result) << "\n";
      Add(result, twice, &totals);
      TellVerdict(result);
    }
  } else if (!Jobs(options, &totals).Run()) {
    std::cerr << "atoll-sim: cannot start a process\n";
    return 1;
  }
  const double seconds = SecondsSince(begin);
  if (options.json) {
    PrintJson(totals, seconds);
  } else {
    PrintTotals(totals, seconds);
  }
  return totals.failures.empty() ? 0 : 1;
}

}  // namespace atolld
