#include "tests/sim/etcd_turns.h"

#include <utility>

#include "daemon/etcd/etcd_store.h"

namespace atolld {

EtcdTurns::EtcdTurns(SimProcess& process, SimEtcd& etcd, EtcdLaw& law, Settings settings,
                     Events events)
    : threads_(process.threads()),
      executor_(process.executor()),
      law_(law),
      settings_(std::move(settings)),
      events_(std::move(events)),
      who_(SimEtcd::WhoIs(process)),
      access_(etcd.AccessOf(process)),
      main_(threads_.Start([this] { Main(); })) {}

void EtcdTurns::AwaitUntil(const std::function<bool()>& condition) {
  while (!condition() && !threads_.dead()) threads_.Park(absl::InfiniteDuration());
}

void EtcdTurns::AwaitLost() {
  AwaitUntil([this] { return lost(); });
}

void EtcdTurns::Sleep(absl::Duration wait) { access_.machine->Sleep(wait); }

void EtcdTurns::Stop() {
  stopping_ = true;
  threads_.Wake(main_);
}

Leadership::Events EtcdTurns::LeadershipEvents() {
  Leadership::Events events;
  const auto post = [this](Task task) {
    executor_.Post([this, task = std::move(task)] {
      task();
      threads_.Wake(main_);
    });
  };
  events.on_leading = [this, post](std::shared_ptr<LeaderTerm> term) {
    post([this, term] { term_ = term; });
  };
  events.on_lost = [this, post](const std::shared_ptr<LeaderTerm>& term, const std::string& why) {
    post([this, term, why] {
      if (term_ == term) lost_ = why;
    });
  };
  events.on_leader = [this, post](const std::string& address) {
    post([this, address] { leader_ = address; });
  };
  events.on_trouble = [](const std::string&) {};
  events.on_failed = [this, post](const absl::Status& why) {
    post([this, why] { failed_ = why; });
  };
  return events;
}

void EtcdTurns::Main() {
  {
    // A simulated process stands still as a whole, so nothing has to tick here.
    Leadership leadership(
        {access_, settings_.prefix, settings_.ttl, settings_.address, "", absl::InfiniteDuration()},
        LeadershipEvents());
    while (!threads_.dead() && !stopping_ && failed_.ok()) {
      {
        const std::shared_ptr<void> door = events_.wait();
        AwaitUntil([this] { return stopping_ || term_ != nullptr || !failed_.ok(); });
      }
      if (threads_.dead() || stopping_ || term_ == nullptr) break;
      leader_.clear();
      const absl::Status led = events_.lead(
          law_.Watch(who_, term_, std::make_unique<EtcdStore>(access_, settings_.prefix, term_)));
      if (!led.ok() && !absl::IsAborted(led)) {
        failed_ = led;
        break;
      }
      AwaitLost();
      term_.reset();
      lost_.clear();
      leadership.Release();
    }
  }
  if (!threads_.dead()) events_.ended(failed_);
}

}  // namespace atolld
