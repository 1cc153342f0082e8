"""Verification of log directories, and what a broker would do about each problem."""

from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Problem, Report

__all__ = ["Problem", "Report", "verify"]
