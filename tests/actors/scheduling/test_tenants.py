"""Accounts of what each tenant has had."""

from legato.actors.scheduling.tenants import PRUNE_ABOVE, Tenants


def test_a_new_tenant_starts_level_with_the_one_served_last():
    tenants = Tenants()
    first = tenants.enter("a")
    tenants.serve(first, 100)
    tenants.serve(first, 100)
    assert tenants.enter("b").used == 100


def test_a_tenant_keeps_its_debt_while_others_wait():
    tenants = Tenants()
    tenants.line_up(tenants.enter("other"))
    share = tenants.enter("a")
    tenants.serve(share, 500)
    tenants.leave(share)
    again = tenants.enter("a")
    tenants.line_up(again)
    assert again.used == 500


def test_debts_are_forgotten_when_nobody_waits():
    tenants = Tenants()
    debtor = tenants.enter("debtor")
    tenants.serve(debtor, 500)
    other = tenants.enter("other")
    tenants.line_up(other)
    assert other.used == 500


def test_the_first_in_line_brings_an_idle_account_level():
    tenants = Tenants()
    idle, busy = tenants.enter("idle"), tenants.enter("busy")
    tenants.serve(busy, 100)
    tenants.serve(busy, 100)
    tenants.line_up(busy)
    tenants.line_up(idle)
    assert idle.used == 200
    tenants.serve(busy, 100)
    tenants.line_up(idle)
    assert idle.used == 200


def test_accounts_without_claim_or_debt_are_dropped():
    tenants = Tenants()
    for number in range(5 * PRUNE_ABOVE):
        share = tenants.enter(str(number))
        tenants.line_up(share)
        tenants.step_out(share)
        tenants.serve(share, 10)
        tenants.leave(share)
    assert len(tenants) < 3 * PRUNE_ABOVE
