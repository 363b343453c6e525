#!/bin/bash
set -e
cd /app
echo bottle >> record.txt
echo temple > copy.txt
