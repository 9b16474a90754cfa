// Drives a fuzzer if the compiler has no engine: runs inputs drawn from a seed, and changed earlier
// ones, for a while.
//
//   NAME [-max_total_time=SECONDS] [-runs=COUNT] [-seed=NUMBER] [FILE...]
//
// Takes libFuzzer's options of these names; the seed is that of ATOLL_SIM_BASE in the environment,
// or 1. With files it runs each of them once. An input that breaks a law ends the process, which
// prints the number of the input; the seed reproduces it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

constexpr size_t kLongest = 4096;
constexpr size_t kPool = 256;
// Bytes that decoders treat specially: ends of ranges, parts of special floats and lengths.
constexpr uint8_t kOdd[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x3f, 0xc0, 0x10};

uint64_t running = 0;  // number of the input that runs

void TellInput(int signal_number) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "input number %llu\n",
                                   static_cast<unsigned long long>(running));
  if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

class Inputs {
 public:
  explicit Inputs(uint64_t seed) : random_(seed) {}

  Input Next() {
    Input input = pool_.empty() || Below(4) == 0 ? Fresh() : pool_[Below(pool_.size())];
    for (size_t changes = Below(6); changes > 0; --changes) Change(&input);
    if (pool_.size() < kPool) {
      pool_.push_back(input);
    } else if (Below(8) == 0) {
      pool_[Below(kPool)] = input;
    }
    return input;
  }

 private:
  size_t Below(size_t limit) { return static_cast<size_t>(random_() % limit); }
  uint8_t Byte() {
    return Below(3) == 0 ? kOdd[Below(sizeof kOdd)] : static_cast<uint8_t>(random_());
  }

  // Short ones mostly: most of what can go wrong goes wrong there, and they are quick.
  Input Fresh() {
    Input input(Below(size_t{1} << (1 + Below(12))));
    const uint8_t fill = Byte();
    const bool flat = Below(4) == 0;
    for (uint8_t& byte : input) byte = flat ? fill : Byte();
    return input;
  }

  void Change(Input* input) {
    if (input->empty()) return input->push_back(Byte());
    const size_t at = Below(input->size());
    const size_t length = 1 + Below(std::min<size_t>(input->size() - at, 64));
    const auto begin = input->begin() + static_cast<ptrdiff_t>(at);
    switch (Below(6)) {
      case 0:
        (*input)[at] = Byte();
        break;
      case 1:
        (*input)[at] ^= static_cast<uint8_t>(1u << Below(8));
        break;
      case 2:
        input->erase(begin, begin + static_cast<ptrdiff_t>(length));
        break;
      case 3: {  // the same once more
        const Input part(begin, begin + static_cast<ptrdiff_t>(length));
        if (input->size() + length <= kLongest) input->insert(begin, part.begin(), part.end());
        break;
      }
      case 4: {  // the end of another
        const Input& other = pool_[Below(pool_.size())];
        const size_t from = Below(other.size() + 1);
        input->resize(at);
        input->insert(input->end(), other.begin() + static_cast<ptrdiff_t>(from), other.end());
        input->resize(std::min(input->size(), kLongest));
        break;
      }
      default:
        std::fill(begin, begin + static_cast<ptrdiff_t>(length), Byte());
    }
  }

  std::mt19937_64 random_;
  std::vector<Input> pool_ = {Input()};
};

int RunFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    return 2;
  }
  const Input input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  uint64_t seconds = 10;
  uint64_t runs = UINT64_MAX;
  const char* const base = std::getenv("ATOLL_SIM_BASE");
  uint64_t seed = base == nullptr ? 1 : std::strtoull(base, nullptr, 10);
  bool files = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](const char* name, uint64_t* number) {
      if (argument.rfind(name, 0) != 0) return false;
      *number = std::strtoull(argument.c_str() + std::strlen(name), nullptr, 10);
      return true;
    };
    if (value("-max_total_time=", &seconds) || value("-runs=", &runs) || value("-seed=", &seed)) {
      continue;
    }
    if (argument[0] == '-') {
      std::fprintf(stderr, "unknown option %s\n", argument.c_str());
      return 2;
    }
    files = true;
    const int result = RunFile(argument);
    if (result != 0) return result;
  }
  if (files) return 0;
  signal(SIGABRT, TellInput);
  signal(SIGSEGV, TellInput);
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  Inputs inputs(seed);
  for (; running < runs && Clock::now() < end; ++running) {
    const Input input = inputs.Next();
    if (LLVMFuzzerTestOneInput(input.data(), input.size()) != 0) return 1;
  }
  std::printf("%llu inputs of seed %llu, nothing found\n", static_cast<unsigned long long>(running),
              static_cast<unsigned long long>(seed));
  return running > 0 ? 0 : 1;
}
