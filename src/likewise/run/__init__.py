"""Runs functions over blocks of rows; knows no audit."""
