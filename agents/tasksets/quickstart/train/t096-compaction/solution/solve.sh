#!/bin/bash
set -e
cd /app
echo 77 > memo.txt
echo bright > copy.txt
echo circle > log.txt
