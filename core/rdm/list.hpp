// SPDX-License-Identifier: BSD-3-Clause
// A list whose links are in its elements: neither adding nor removing takes memory.
#pragma once

namespace compat::core::rdm {

template <class T>
class List;

template <class T>
class Linked {
private:
    friend class List<T>;
    T* before_ = nullptr;
    T* after_ = nullptr;
};

/// An element is in one list at most.
template <class T>
class List {
public:
    List() = default;
    List(const List&) = delete;
    List& operator=(const List&) = delete;

    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] T* first() const noexcept { return first_; }
    [[nodiscard]] static T* next(const T& element) noexcept { return link(element).after_; }

    void push(T& element) noexcept {
        link(element).before_ = last_;
        link(element).after_ = nullptr;
        (last_ != nullptr ? link(*last_).after_ : first_) = &element;
        last_ = &element;
    }
    /// Null: at the end.
    void put_before(T* place, T& element) noexcept {
        if (place == nullptr) return push(element);
        Linked<T>& own = link(element);
        own.before_ = link(*place).before_;
        own.after_ = place;
        (own.before_ != nullptr ? link(*own.before_).after_ : first_) = &element;
        link(*place).before_ = &element;
    }
    void remove(T& element) noexcept {
        Linked<T>& own = link(element);
        (own.before_ != nullptr ? link(*own.before_).after_ : first_) = own.after_;
        (own.after_ != nullptr ? link(*own.after_).before_ : last_) = own.before_;
        own.before_ = own.after_ = nullptr;
    }
    /// The first element, removed; null when there is none.
    T* pop() noexcept {
        T* const element = first_;
        if (element != nullptr) remove(*element);
        return element;
    }

private:
    static Linked<T>& link(T& element) noexcept { return element; }
    static const Linked<T>& link(const T& element) noexcept { return element; }

    T* first_ = nullptr;
    T* last_ = nullptr;
};

}  // namespace compat::core::rdm
